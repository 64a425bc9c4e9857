"""Opens a replay: begins it or goes on with it, after checks of its place; locks the place."""

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
from app.replay import rebuilt_tables
from app.replay.bounds import Bound, Known, RangeSide, check
from app.replay.destination import RebuildPlace
from app.replay.metadata import ReplayMetadata
from app.replay.origin import describe_missing, gone
from app.replay.rebuilt_tables import OriginalTable
from app.verify.verification_records import place as place_of

#: the bound without --to
LATEST = Bound.parse("latest")
_HAS_LEDGER = text("select to_regclass(:ledger) is not null")


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """The options of the command line; None: as in an earlier call."""

    start: Bound | None = None
    goal: Bound | None = None
    anew: bool = False


@dataclass(kw_only=True)
class Opening:
    """The opening of one call. `target` and `there`: autocommit connections to the lane's target and to the place."""

    place: RebuildPlace
    options: ReplayOptions
    known: Known
    target: Connection
    there: Connection
    progress: Callable[[str], None]
    #: parts of the target's tables that the replay's tables lack
    left_out: list[str] = field(default_factory=list)

    def open(self) -> ReplayMetadata:
        """Make tables, schema and metadata, or find those of an earlier call, and migrate the schema."""
        with translated("replay: reading the target's catalog"):
            originals = rebuilt_tables.originals(self.target, self.place.settings)
        rebuilt_tables.check_place(self.place, originals)
        with translated(f"replay: preparing {self.place.shown}"):
            if self.place.is_elsewhere:
                self._check_database()
            before = marks.find(self.there, self.place.own)
            known = None if self.options.anew else before
            mark = self._begin(originals) if known is None else self._go_on(known)
            upgrade(self.place.engine(), self.place.own)
        return mark

    def _begin(self, originals: Sequence[OriginalTable]) -> ReplayMetadata:
        if self.options.start is None:
            hint = "--from earliest: the first message that is left; or a position, a time, an epoch"
            raise ConfigInvalid("say where the replay begins", hint=hint)
        mark = self._mark(self.options.start, self.options.goal or LATEST)
        if self.options.anew:
            with self._writing() as connection:
                self._clear(connection, originals)
        elif full := rebuilt_tables.with_rows(self.there, self.place, originals):
            raise Refused(
                f"tables are there already, and not empty: {', '.join(full)}",
                hint="name another place, or empty them: --anew does it. Nothing was changed",
            )
        missing = rebuilt_tables.missing(self.there, self.place, originals)
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
        """Raises a Diverged that names the messages that are gone."""
        if missing := gone(self.known.origin, position, goal):
            raise Diverged(
                f"{self.known.origin.name} no longer has {describe_missing(missing)}, which the replay still needs",
                hint="begin later: --from earliest is the first message that is left",
            )

    def _go_on(self, mark: ReplayMetadata) -> ReplayMetadata:
        """Go on with an earlier replay, from the same beginning, to another end if one is given."""
        settings = self.place.settings
        if (mark.lane, mark.of) != (settings.lane, place_of(settings.target.url)):
            raise Refused(
                f"{self.place.shown} has a replay of lane {mark.lane} of {mark.of}",
                hint="name another place, or begin anew there: --anew",
            )
        start, goal = self.options.start, self.options.goal
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
        """Drop what an earlier replay made; truncate tables that it did not make."""
        if marks.exists(connection, self.place.own):
            marks.find(connection, self.place.own)
            run(connection, f"drop schema {quoted(self.place.own)} cascade")
        if self.place.schema is not None and marks.is_marked(connection, self.place.schema):
            rebuilt_tables.drop(connection, self.place, originals)
        else:
            rebuilt_tables.empty(connection, self.place, originals)

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
        self.left_out += rebuilt_tables.copy_here(connection, self.place, missing, originals)

    def _fill_database(self, originals: Sequence[OriginalTable], missing: Sequence[OriginalTable]) -> None:
        if len(missing) < len(originals):
            raise Refused(
                f"{self.place.shown} has some of the tables, and not {', '.join(map(str, missing))}",
                hint="make them, or name an empty database, in which all of them are made",
            )
        rebuilt_tables.copy_there(self.target, self.place, self.progress)
        failpoint.reach("replay-tables")
        if missing := rebuilt_tables.missing(self.there, self.place, originals):
            raise Refused(f"{', '.join(map(str, missing))} cannot be seen there", hint="as whom does --into connect?")

    def _check_database(self) -> None:
        """Raises Refused for a database whose ledger has rows: a lane writes it."""
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
def alone(place: RebuildPlace, target: Connection, there: Connection) -> Iterator[None]:
    """Lock the place, for one replay at a time; raises Refused for the target's own database as another database.

    Advisory locks belong to a connection and to a database: one name locked on both connections shows that they differ.
    """
    with translated(f"replay: asking {place.shown}"):
        probe = f"replay {uuid.uuid4()}"
        if place.is_elsewhere and not (try_lock(target, probe) and try_lock(there, probe)):
            hint = "name another database; to replay into a schema of the target, --into SCHEMA"
            raise Refused(f"{place.shown} is the target's own database", hint=hint)
        if not try_lock(there, f"replay into {place.own}"):  # the spaces keep it apart from lanes' names
            raise Refused(f"another replay into {place.shown} is at work", hint="wait for its end")
    yield
