"""Before a replay begins or goes on: what it is, where it goes, and that nobody else is at it."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import Connection, text
from sqlalchemy.schema import CreateSchema

from app import failpoint
from app.db.locks import try_lock
from app.db.sql import quoted, run
from app.db.sqlstate import translated
from app.errors import ConfigInvalid, Diverged, Refused
from app.ledger.ledger_tables import LedgerTables
from app.ledger.migrations import upgrade
from app.model.offsets import Offsets
from app.replay import metadata as marks
from app.replay import target_tables
from app.replay.bounds import Bound, Known, RangeSide, check
from app.replay.destination import Destination
from app.replay.metadata import ReplayMetadata
from app.replay.origin import gone, told
from app.replay.target_tables import OriginalTable
from app.verify.verification_records import place as place_of

#: without --to
LATEST = Bound.parse("latest")
_HAS_LEDGER = text("select to_regclass(:ledger) is not null")


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What the command line says; None: as an earlier call said it."""

    start: Bound | None = None
    goal: Bound | None = None
    anew: bool = False


@dataclass(kw_only=True)
class Opening:
    """One call's. `target` and `there` are connections that commit each statement, to the lane's target and to the
    place."""

    place: Destination
    wishes: ReplayOptions
    known: Known
    target: Connection
    there: Connection
    progress: Callable[[str], None]
    #: of the target's tables, what the replay's have not
    left_out: list[str] = field(default_factory=list)

    def open(self) -> ReplayMetadata:
        """Tables, schema and mark are there then, and the schema is of this version."""
        with translated("replay: reading the target's catalog"):
            originals = target_tables.originals(self.target, self.place.settings)
        target_tables.check_place(self.place, originals)
        with translated(f"replay: preparing {self.place.shown}"):
            if self.place.is_elsewhere:
                self._check_database()
            before = marks.find(self.there, self.place.own)
            known = None if self.wishes.anew else before
            mark = self._begin(originals) if known is None else self._go_on(known)
            upgrade(self.place.engine(), self.place.own)
        return mark

    def _begin(self, originals: Sequence[OriginalTable]) -> ReplayMetadata:
        if self.wishes.start is None:
            hint = "--from earliest: the first message that is left; or a position, a time, an epoch"
            raise ConfigInvalid("say where the replay begins", hint=hint)
        mark = self._mark(self.wishes.start, self.wishes.goal or LATEST)
        if self.wishes.anew:
            with self._writing() as connection:
                self._clear(connection, originals)
        elif full := target_tables.with_rows(self.there, self.place, originals):
            raise Refused(
                f"tables are there already, and not empty: {', '.join(full)}",
                hint="name another place, or empty them: --anew does it. Nothing was changed",
            )
        missing = target_tables.missing(self.there, self.place, originals)
        if self.place.is_elsewhere and missing:
            self._fill_database(originals, missing)
        with self._writing() as connection:
            connection.execute(CreateSchema(self.place.own))
            marks.write(connection, self.place.own, mark)
            if self.place.schema is not None and missing:
                self._fill_schema(connection, self.place.schema, missing, originals)
        return mark

    def _mark(self, start: Bound, goal: Bound) -> ReplayMetadata:
        settings = self.place.settings
        begin, end = self.known.position(start, RangeSide.FROM), self.known.position(goal, RangeSide.TO)
        check(begin, end, self.known.origin)
        self.check_there(begin, end)
        return ReplayMetadata(
            lane=settings.lane,
            of=place_of(settings.target.url),
            start=begin,
            goal=end,
            start_text=start.text,
            goal_text=goal.text,
        )

    def check_there(self, position: Offsets, goal: Offsets) -> None:
        """Raises Diverged that names what is not there any more."""
        if missing := gone(self.known.origin, position, goal):
            raise Diverged(
                f"{self.known.origin.name} no longer has {told(missing)}, which the replay still needs",
                hint="begin later: --from earliest is the first message that is left",
            )

    def _go_on(self, mark: ReplayMetadata) -> ReplayMetadata:
        """With the same beginning; to another end, if that is wanted."""
        settings = self.place.settings
        if (mark.lane, mark.of) != (settings.lane, place_of(settings.target.url)):
            raise Refused(
                f"{self.place.shown} has a replay of lane {mark.lane} of {mark.of}",
                hint="name another place, or begin anew there: --anew",
            )
        start, goal = self.wishes.start, self.wishes.goal
        if start is not None and start.text != mark.start_text:
            wanted = self.known.position(start, RangeSide.FROM)
            if wanted != mark.start:
                raise Refused(
                    f"the replay in {self.place.shown} began at {mark.start}, not at {wanted}",
                    hint="go on with it, without --from, or begin anew: --anew",
                )
        if goal is None or goal.text == mark.goal_text:
            return mark
        wanted = self.known.position(goal, RangeSide.TO)
        check(mark.start, wanted, self.known.origin)
        mark = mark.to(wanted, goal.text)
        with self._writing() as connection:
            marks.write(connection, self.place.own, mark)
        return mark

    def _clear(self, connection: Connection, originals: Sequence[OriginalTable]) -> None:
        """What an earlier replay made is dropped; tables that somebody else made are emptied."""
        if marks.exists(connection, self.place.own):
            marks.find(connection, self.place.own)
            run(connection, f"drop schema {quoted(self.place.own)} cascade")
        if self.place.schema is not None and marks.is_marked(connection, self.place.schema):
            target_tables.drop(connection, self.place, originals)
        else:
            target_tables.empty(connection, self.place, originals)

    def _fill_schema(
        self,
        connection: Connection,
        schema: str,
        missing: Sequence[OriginalTable],
        originals: Sequence[OriginalTable],
    ) -> None:
        if not marks.exists(connection, schema):
            connection.execute(CreateSchema(schema))
            marks.comment(connection, schema, f"of lane {self.place.settings.lane}, see schema {self.place.own}")
        self.left_out += target_tables.copy_here(connection, self.place, missing, originals)

    def _fill_database(self, originals: Sequence[OriginalTable], missing: Sequence[OriginalTable]) -> None:
        if len(missing) < len(originals):
            raise Refused(
                f"{self.place.shown} has some of the tables, and not {', '.join(map(str, missing))}",
                hint="make them, or name an empty database, in which all of them are made",
            )
        target_tables.copy_there(self.target, self.place, self.progress)
        failpoint.reach("replay-tables")
        if missing := target_tables.missing(self.there, self.place, originals):
            raise Refused(f"{', '.join(map(str, missing))} cannot be seen there", hint="as whom does --into connect?")

    def _check_database(self) -> None:
        """Not the target's own, nor one that a lane writes."""
        schema = self.place.settings.target.db_schema
        if not self.there.execute(_HAS_LEDGER, {"ledger": f"{quoted(schema)}.ledger"}).scalar_one():
            return
        if self.there.execute(LedgerTables.in_schema(schema).ledger.select().limit(1)).first() is not None:
            raise Refused(
                f"{self.place.shown} is a lane's target itself: schema {schema} there has a ledger",
                hint="name an empty database; to replay into a schema of the target, --into SCHEMA",
            )

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self.place.engine().begin() as connection:
            yield connection


@contextmanager
def alone(place: Destination, target: Connection, there: Connection) -> Iterator[None]:
    """One replay into a place at a time, and none into the target's own tables: locks go with their connection, and are
    a database's."""
    with translated(f"replay: asking {place.shown}"):
        probe = f"replay {uuid.uuid4()}"
        if place.is_elsewhere and not (try_lock(target, probe) and try_lock(there, probe)):
            hint = "name another database; to replay into a schema of the target, --into SCHEMA"
            raise Refused(f"{place.shown} is the target's own database", hint=hint)
        if not try_lock(there, f"replay into {place.own}"):  # no lane's name: it has spaces
            raise Refused(f"another replay into {place.shown} is at work", hint="wait for its end")
    yield
