"""A whole comparison: which tables, each of them, once more what differs, and the record."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.engine import URL

from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.failures import translated
from app.errors import Refused
from app.verify.again import look_again
from app.verify.compare import Comparer
from app.verify.pair import Pair
from app.verify.pairs import Choice, Pairing, Skipped
from app.verify.record import Verification, Verifications, place
from app.verify.result import TableResult
from app.verify.side import snapshot

NAME = "surelane verify"
_IS_COPY = text("select pg_is_in_recovery()")
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """What was found."""

    tables: list[TableResult]
    skipped: list[Skipped]
    record: Verification

    @property
    def equal(self) -> bool:
        """Whether every table that was compared is the same."""
        return self.record.differing == 0


class Verify:
    """The target of a lane's configuration against another database."""

    def __init__(self, settings: Settings, against: URL, choice: Choice, progress: Progress) -> None:
        self._settings, self._against, self._progress = settings, against, progress
        self._pairing = Pairing(settings, choice)
        self._target = make_engine(settings.target.url, settings.target.owner_role, NAME)
        self._other = make_engine(against, None, NAME)
        self._records = Verifications(settings.target.db_schema)

    def run(self, wait: float = 0) -> Outcome:
        """`wait`: seconds for which keys that differ are looked at again."""
        self._check()
        with self._comparer() as comparer:
            pairs, skipped = self._pairs(comparer)
            results = [comparer.compare(pair) for pair in pairs]
        look_again(results, self._comparer, wait, self._progress)
        done = Verification(
            lane=self._settings.lane,
            against=place(self._against),
            tables=len(results),
            rows=sum(one.target_rows for one in results),
            differing=sum(one.differing for one in results),
        )
        self._record(done)
        return Outcome(results, skipped, done)

    def _pairs(self, comparer: Comparer) -> tuple[list[Pair], list[Skipped]]:
        target, other = comparer.sides
        with translated("verify: reading the catalogs"):
            pairs, skipped = self._pairing.find(target.connection, other.connection)
        if not pairs:
            why = "".join(f"\n  {one.table}: {one.why}" for one in skipped)
            hint = "look at target.tables, --tables and --after; --same-names compares with a copy of the target"
            raise Refused(f"there is no table to compare{':' + why if why else ''}", hint=hint)
        return pairs, skipped

    @contextmanager
    def _comparer(self) -> Iterator[Comparer]:
        with ExitStack() as stack:
            target = stack.enter_context(snapshot(self._target, "the target"))
            other = stack.enter_context(snapshot(self._other, "the other database"))
            yield Comparer(target, other, self._progress)

    def _check(self) -> None:
        """Rather now than after hours: what the record needs."""
        with translated("verify: reading the last record"), self._target.begin() as connection:
            self._records.last(connection, self._settings.lane)

    def _record(self, done: Verification) -> None:
        """A standby keeps none."""
        with translated("verify: writing the record"), self._target.begin() as connection:
            if not connection.execute(_IS_COPY).scalar_one():
                self._records.write(connection, done)
