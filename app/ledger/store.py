"""Reads and writes the ledger of one lane. Every method works in the caller's transaction and never ends it."""

import datetime
import json
import os
import re
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, delete, desc, exists, func, literal, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from app.config.settings import CommitMode
from app.db.joined import later, reported
from app.db.prepared import gids
from app.db.sql import literal as quoted_text
from app.db.sql import quoted, run
from app.errors import Fenced
from app.ledger.ledger_tables import COUNTS, LedgerTables
from app.ledger.pins import check_pins
from app.model.counts import Counts
from app.model.epoch import GENESIS, EpochRecord
from app.model.last import from_nested, nested
from app.model.offsets import Offsets, Span
from app.model.statement import Statement
from app.model.utc import utc

#: rows of the ledger that are kept for each lane; older ones are only history
KEEP_EPOCHS = 100_000
#: generations that are kept for each lane, even without a row in the ledger
KEEP_GENERATIONS = 1000
#: most rows that one pruning deletes: a backlog of an earlier version is deleted in several steps
PRUNE_AT_ONCE = 10_000
#: of `execute_exactly`
_REPORTED = re.compile(r"surelane: ([0-9.]+) ms")
#: in place of a checkpoint id: the next start begins a new checkpoint at the ledger's end
FROM_LEDGER = ""


@dataclass(frozen=True, kw_only=True)
class LaneState:
    """The last state that the writer recorded."""

    state: str
    last_error: str | None
    #: what a running lane waits for before its next epoch
    waits_for: str | None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim of a generation. A claim whose COMMIT was lost may have its number taken by another process."""

    generation: int
    #: by the server's clock
    since: datetime.datetime


@dataclass(frozen=True, kw_only=True)
class Claimant:
    """The process that claimed a generation: a lane's, or `surelane recover`."""

    host: str
    pid: int
    since: datetime.datetime

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {utc(self.since)}"


class Ledger:
    """The ledger of `lane` in the schema `schema`."""

    def __init__(self, schema: str, lane: str) -> None:
        self.schema = schema
        self.lane = lane
        self._tables = LedgerTables.in_schema(schema)
        # made once: that takes longer than to execute it
        self._insert = insert(self._tables.ledger)

    def last(self, connection: Connection) -> EpochRecord | None:
        """The newest row, at whose end the lane continues; None for a lane that never started."""
        ledger = self._tables.ledger
        row = connection.execute(
            select(ledger).where(ledger.c.lane == self.lane).order_by(desc("generation"), desc("epoch")).limit(1)
        ).first()
        return _record(row) if row else None

    def counted(self, connection: Connection) -> Counts:
        """The sums over all rows."""
        ledger = self._tables.ledger
        sums = (func.coalesce(func.sum(ledger.c[count]), 0) for count in COUNTS)
        row = connection.execute(select(*sums).where(ledger.c.lane == self.lane)).one()
        return Counts(**{name: int(value) for name, value in zip(COUNTS, row, strict=True)})

    def plans(self, connection: Connection, epochs: int) -> dict[str, int]:
        """Number of the last `epochs` epochs by plan."""
        ledger = self._tables.ledger
        newest = select(ledger.c.plan).where(ledger.c.lane == self.lane, ledger.c.epoch > GENESIS)
        taken = newest.order_by(desc("generation"), desc("epoch")).limit(epochs).subquery()
        counted = select(taken.c.plan, func.count()).group_by(taken.c.plan).order_by(func.count().desc(), taken.c.plan)
        return {row[0]: row[1] for row in connection.execute(counted)}

    def find(self, connection: Connection, generation: int, epoch: int) -> EpochRecord | None:
        """The row of one epoch of one generation."""
        ledger = self._tables.ledger
        row = connection.execute(
            select(ledger).where(ledger.c.lane == self.lane, ledger.c.generation == generation, ledger.c.epoch == epoch)
        ).first()
        return _record(row) if row else None

    def numbered(self, connection: Connection, epoch: int) -> list[EpochRecord]:
        """The rows with this epoch number, one for each generation that has it, in the order of generations."""
        ledger = self._tables.ledger
        mine = select(ledger).where(ledger.c.lane == self.lane, ledger.c.epoch == epoch)
        return [_record(row) for row in connection.execute(mine.order_by("generation"))]

    def is_applied(self, connection: Connection, checkpoint: str, epoch: int) -> bool:
        """Whether it has a row of this epoch of a checkpoint."""
        of_generation = self.checkpoints(connection)
        return any(of_generation.get(row.generation) == checkpoint for row in self.numbered(connection, epoch))

    def before(self, connection: Connection, generation: int, epoch: int) -> EpochRecord | None:
        """The last row before that epoch."""
        ledger = self._tables.ledger
        earlier = tuple_(ledger.c.generation, ledger.c.epoch) < tuple_(literal(generation), literal(epoch))
        mine = select(ledger).where(ledger.c.lane == self.lane, earlier)
        row = connection.execute(mine.order_by(desc("generation"), desc("epoch")).limit(1)).first()
        return _record(row) if row else None

    def record(self, connection: Connection, record: EpochRecord, *, joined: bool = False) -> None:
        """Insert the epoch's row; `joined`: with the transaction's next statement (`app.db.joined`). The primary key
        refuses a second row for (lane, generation, epoch)."""
        row = {
            "lane": record.lane,
            "generation": record.generation,
            "epoch": record.epoch,
            "start_position": record.span.start.nested(),
            "end_position": record.span.end.nested(),
            "read_position": None if record.read_end is None else record.read_end.nested(),
            "plan": record.plan,
            "source_from": record.source_from,
            "source_to": record.source_to,
            "last_message": nested(record.last) or None,
            **record.counts.as_dict(),
        }
        if joined:
            later(connection, self._insert, row)
        else:
            connection.execute(self._insert, row)

    def prune(self, connection: Connection) -> None:
        """Delete rows of this lane, of any generation, that are older than the newest KEEP_EPOCHS; then generations
        older than the newest KEEP_GENERATIONS that have neither a row nor a prepared transaction.

        Deletes at most PRUNE_AT_ONCE rows of each table.
        """
        ledger = self._tables.ledger
        mine = select(ledger.c.generation, ledger.c.epoch).where(ledger.c.lane == self.lane)
        newest_first = mine.order_by(desc("generation"), desc("epoch"))
        oldest_kept = connection.execute(newest_first.offset(max(KEEP_EPOCHS, 1) - 1).limit(1)).first()
        if oldest_kept is not None:
            older = tuple_(ledger.c.generation, ledger.c.epoch) < tuple_(*map(literal, oldest_kept))
            doomed = mine.where(older).order_by("generation", "epoch").limit(PRUNE_AT_ONCE).subquery()
            this = tuple_(ledger.c.generation, ledger.c.epoch)
            connection.execute(
                delete(ledger).where(ledger.c.lane == self.lane, this.in_(select(doomed.c.generation, doomed.c.epoch)))
            )
        self._prune_generations(connection)

    def _prune_generations(self, connection: Connection) -> None:
        table, ledger = self._tables.generation, self._tables.ledger
        mine = select(table.c.generation).where(table.c.lane == self.lane)
        oldest_kept = mine.order_by(desc("generation")).offset(max(KEEP_GENERATIONS, 1) - 1).limit(1).scalar_subquery()
        has_row = exists().where(ledger.c.lane == self.lane, ledger.c.generation == table.c.generation)
        mine_prepared = [gid for gid in gids(connection) if gid.belongs_to(self.lane)]
        in_doubt = table.c.generation.in_([gid.generation for gid in mine_prepared])
        active = select(self._tables.lane.c.generation).where(self._tables.lane.c.lane == self.lane).scalar_subquery()
        unused = mine.where(table.c.generation < oldest_kept, table.c.generation < active, ~has_row, ~in_doubt)
        doomed = unused.order_by("generation").limit(PRUNE_AT_ONCE).subquery()
        connection.execute(
            delete(table).where(table.c.lane == self.lane, table.c.generation.in_(select(doomed.c.generation)))
        )

    def hold(self, connection: Connection, generation: int) -> None:
        """Fence: lock the lane row FOR SHARE until the transaction ends; raises Fenced for another generation."""
        lane = self._tables.lane
        current = connection.execute(
            select(lane.c.generation).where(lane.c.lane == self.lane).with_for_update(read=True)
        ).scalar_one_or_none()
        if current != generation:
            raise self._fenced(connection, generation, current)

    def apply(
        self, connection: Connection, generation: int, last: EpochRecord | None, statements: Sequence[Statement]
    ) -> list[int] | None:
        """Hold the lane as `hold` does and execute SQL without parameters, in one round trip. Returns how many rows
        each statement changed; None, with nothing executed, where the lane has another generation, or the newest row is
        not `last`."""
        if last is None:
            return None
        called = f"execute_all({self._is_at(generation, last)}, {_texts(one.sql for one in statements)})"
        counts: list[int] | None = run(connection, f"select {quoted(self.schema)}.{called}").scalar_one()
        return counts

    def apply_exactly(
        self, connection: Connection, generation: int, last: EpochRecord, statements: Sequence[Statement]
    ) -> None:
        """As `apply`, with the connection's next statement, whose error is SQLSTATE P0001 where the lane is not at
        `last`, or a statement changes another number of rows than it should."""
        rows = ", ".join("null" if one.rows is None else str(one.rows) for one in statements)
        unless = ", ".join(quoted_text(one.unless) if one.unless else "null" for one in statements)
        texts = _texts(one.sql for one in statements)
        called = f"{self._is_at(generation, last)}, {texts}, array[{rows}]::bigint[], array[{unless}]::text[]"
        later(connection, f"select {quoted(self.schema)}.execute_exactly({called})")

    @staticmethod
    def exact_seconds(connection: Connection) -> float:
        """How long the last `apply_exactly` of this connection took in the server; once for each, then 0."""
        return sum(float(found) / 1000 for found in _REPORTED.findall(reported(connection))[-1:])

    def _is_at(self, generation: int, last: EpochRecord) -> str:
        """A literal: the query that holds the lane, and finds a row where the newest one is `last`."""
        schema, lane = quoted(self.schema), quoted_text(self.lane)
        newest = f"{last.generation}, {last.epoch}, {_json(last.span.end)}, {_json(last.read)}"
        return quoted_text(  # names and literals are quoted
            f"select from {schema}.lane l where l.lane = {lane} and l.generation = {generation} and ({newest}) = "  # noqa: S608
            f"(select e.generation, e.epoch, e.end_position, coalesce(e.read_position, e.end_position)"
            f" from {schema}.ledger e where e.lane = {lane} order by e.generation desc, e.epoch desc limit 1)"
            " for share of l"
        )

    def claim(
        self, connection: Connection, *, checkpoint: str, delivery: str, at_least: int, mine: Collection[Claim] = ()
    ) -> Claim:
        """Claim the next generation, above all earlier ones and `at_least`; its commit fences older writers.

        `mine`: the caller's earlier claims, also those whose COMMIT had no answer; raises Fenced if there are any and
        the newest claim is none of them. Does not wait for an epoch that an older writer left prepared.
        """
        table = self._tables.generation
        quote = connection.dialect.identifier_preparer.format_table
        run(
            connection, f"lock table {quote(table)} in share row exclusive mode"
        )  # concurrent claims wait for each other
        newest = self._newest_claim(connection)
        if mine and newest not in mine:
            raise self._fenced(connection, max(claim.generation for claim in mine), newest and newest.generation)
        generation = max(newest.generation if newest else 0, at_least) + 1
        claimed = (
            insert(table)
            .values(
                lane=self.lane,
                generation=generation,
                checkpoint=checkpoint,
                delivery=delivery,
                host=socket.gethostname(),
                pid=os.getpid(),
            )
            .returning(table.c.started_at)
        )
        return Claim(generation=generation, since=connection.execute(claimed).scalar_one())

    def newest_checkpoint(self, connection: Connection) -> str | None:
        """Checkpoint id of the newest generation; FROM_LEDGER if an operator requested a new one, None without one."""
        table = self._tables.generation
        newest = select(table.c.checkpoint).where(table.c.lane == self.lane).order_by(desc("generation")).limit(1)
        return connection.execute(newest).scalar_one_or_none()

    def activate(self, connection: Connection, generation: int, checkpoint: str) -> None:
        """Make `generation` the one whose epochs the target accepts; raises Fenced if a newer one was claimed."""
        self.check_newest(connection, generation)
        lane, table = self._tables.lane, self._tables.generation
        connection.execute(
            table.update()
            .where(table.c.lane == self.lane, table.c.generation == generation)
            .values(checkpoint=checkpoint)
        )
        statement = insert(lane).values(lane=self.lane, generation=generation)
        connection.execute(statement.on_conflict_do_update(index_elements=["lane"], set_={"generation": generation}))

    def newest_generation(self, connection: Connection) -> int:
        """The highest claimed generation; 0 for none."""
        table = self._tables.generation
        newest = select(func.coalesce(func.max(table.c.generation), 0)).where(table.c.lane == self.lane)
        return connection.execute(newest).scalar_one()

    def _newest_claim(self, connection: Connection) -> Claim | None:
        table = self._tables.generation
        newest = select(table).where(table.c.lane == self.lane).order_by(desc("generation")).limit(1)
        row = connection.execute(newest).first()
        return Claim(generation=row.generation, since=row.started_at) if row else None

    def check_newest(self, connection: Connection, generation: int) -> None:
        """Raise Fenced if a newer generation was claimed."""
        newest = self.newest_generation(connection)
        if newest != generation:
            raise self._fenced(connection, generation, newest)

    def _fenced(self, connection: Connection, mine: int, newest: int | None) -> Fenced:
        by = self.claimant(connection, newest) if newest is not None else None
        return Fenced.out(
            f"lane {self.lane}: this writer is generation {mine}, the lane is at {newest}" + (f": {by}" if by else "")
        )

    def claimant(self, connection: Connection, generation: int) -> Claimant | None:
        """The process that claimed a generation; None when there is no such generation."""
        table = self._tables.generation
        mine = (table.c.lane == self.lane, table.c.generation == generation)
        row = connection.execute(select(table).where(*mine)).first()
        return Claimant(host=row.host, pid=row.pid, since=row.started_at) if row else None

    def checkpoints(self, connection: Connection) -> dict[int, str]:
        """Checkpoint id of each generation, which identifies the checkpoint of a gid's epoch number."""
        table = self._tables.generation
        rows = connection.execute(select(table.c.generation, table.c.checkpoint).where(table.c.lane == self.lane))
        return {row.generation: row.checkpoint for row in rows}

    def goes_ahead(self, connection: Connection, generation: int, checkpoint: str) -> bool:
        """Whether this generation ran on this checkpoint, and its epochs were decided by the target alone."""
        table = self._tables.generation
        row = connection.execute(
            select(table.c.checkpoint, table.c.delivery).where(
                table.c.lane == self.lane, table.c.generation == generation
            )
        ).first()
        return row is not None and row.checkpoint == checkpoint and row.delivery != CommitMode.TWO_PHASE.value

    def lane_row(self, connection: Connection) -> Row[Any] | None:
        """The lane's row (generation, cluster_id)."""
        lane = self._tables.lane
        return connection.execute(select(lane).where(lane.c.lane == self.lane)).first()

    def pin(self, connection: Connection, cluster_id: str, topic_ids: Mapping[str, str]) -> None:
        """Pin cluster and topics that are not pinned yet; raises TopicChanged when a pinned one has another id."""
        lane, topic = self._tables.lane, self._tables.topic
        row = self.lane_row(connection)
        pinned = self.pinned_topics(connection)
        check_pins(self.lane, (None if row is None else row.cluster_id, cluster_id), pinned, topic_ids)
        if row is not None and row.cluster_id is None:
            connection.execute(lane.update().where(lane.c.lane == self.lane).values(cluster_id=cluster_id))
        for name, topic_id in topic_ids.items():
            if name not in pinned:
                statement = insert(topic).values(lane=self.lane, topic=name, topic_id=topic_id)
                connection.execute(statement.on_conflict_do_nothing())

    def pinned_topics(self, connection: Connection) -> dict[str, str]:
        """The pinned id of each topic."""
        topic = self._tables.topic
        rows = connection.execute(select(topic.c.topic, topic.c.topic_id).where(topic.c.lane == self.lane))
        return {row.topic: row.topic_id for row in rows}

    def pin_anew(self, connection: Connection, cluster_id: str, topic_ids: dict[str, str]) -> None:
        """Replace all pins by these."""
        lane, topic = self._tables.lane, self._tables.topic
        connection.execute(lane.update().where(lane.c.lane == self.lane).values(cluster_id=cluster_id))
        connection.execute(delete(topic).where(topic.c.lane == self.lane))
        values = [{"lane": self.lane, "topic": name, "topic_id": topic_id} for name, topic_id in topic_ids.items()]
        connection.execute(insert(topic), values)

    def forget(self, connection: Connection) -> None:
        """Delete position, pins and state of a lane that was given up. Its generations stay: they fence its writers."""
        tables = self._tables
        for table in (tables.ledger, tables.topic, tables.lane, tables.state):
            connection.execute(delete(table).where(table.c.lane == self.lane))

    def set_state(
        self, connection: Connection, state: str, last_error: str | None = None, waits_for: str | None = None
    ) -> None:
        """Record the writer's state, for `surelane status` only."""
        values = {"state": state, "last_error": last_error, "waits_for": waits_for}
        values |= {"changed_at": func.clock_timestamp()}
        statement = insert(self._tables.state).values(lane=self.lane, **values)
        connection.execute(statement.on_conflict_do_update(index_elements=["lane"], set_=values))

    def state(self, connection: Connection) -> LaneState | None:
        """The last recorded state, or None."""
        state = self._tables.state
        row = connection.execute(select(state).where(state.c.lane == self.lane)).first()
        return LaneState(state=row.state, last_error=row.last_error, waits_for=row.waits_for) if row else None


def _texts(statements: Iterable[str]) -> str:
    return f"array[{', '.join(map(quoted_text, statements))}]::text[]"


def _json(offsets: Offsets) -> str:
    return f"{quoted_text(json.dumps(offsets.nested()))}::jsonb"


def _record(row: Row[Any]) -> EpochRecord:
    return EpochRecord(
        lane=row.lane,
        generation=row.generation,
        epoch=row.epoch,
        span=Span(start=Offsets.from_nested(row.start_position), end=Offsets.from_nested(row.end_position)),
        read_end=None if row.read_position is None else Offsets.from_nested(row.read_position),
        counts=Counts(**{count: getattr(row, count) for count in COUNTS}),
        plan=row.plan,
        source_from=row.source_from,
        source_to=row.source_to,
        last=from_nested(row.last_message),
    )
