"""A whole comparison: which tables, each of them, once more what differs, and the record.

Each table that is through is on record in the target, so that a call that was killed can be gone on with.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.engine import URL

from app import failpoint
from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.sqlstate import translated
from app.errors import Refused
from app.ledger.migrations import check_revision
from app.verify.compare import Comparer
from app.verify.pair import Pair
from app.verify.pairs import Choice, Pairing, SkippedTable
from app.verify.parts import Parts, restored
from app.verify.positions import SidePositions, standing
from app.verify.recheck import look_again
from app.verify.result import TableResult
from app.verify.side import snapshot
from app.verify.verification_records import Verification, Verifications, place

NAME = "surelane verify"
_IS_COPY = text("select pg_is_in_recovery()")
Progress = Callable[[str], None]


@dataclass(frozen=True)
class VerifyOutcome:
    """What was found."""

    tables: list[TableResult]
    skipped: list[SkippedTable]
    record: Verification
    #: None: the other side is no replay
    standing: SidePositions | None = None

    @property
    def equal(self) -> bool:
        """Whether every table that was compared is the same."""
        return self.record.differing == 0


class Verify:
    """The target of a lane's configuration against another database, or against another schema of it."""

    def __init__(self, settings: Settings, against: URL | None, choice: Choice, progress: Progress) -> None:
        """`against`: None: the target's own database."""
        self._settings, self._choice, self._progress = settings, choice, progress
        self._pairing = Pairing(settings, choice)
        target = settings.target
        self._target = make_engine(target.url, target.owner_role, NAME)
        self._other = self._target if against is None else make_engine(against, None, NAME)
        self._against = place(against or target.url) + (f" schema {choice.schema}" if choice.schema else "")
        self._records = Verifications(target.db_schema)
        self._parts = Parts(target.db_schema, settings.lane, self._against, choice)
        #: a standby of the target: nothing is kept there
        self._is_copy = False

    def run(self, wait: float = 0, *, resume: bool = False) -> VerifyOutcome:
        """`wait`: seconds for which keys that differ are looked at again; `resume`: go on with one that was killed."""
        self._check(resume=resume)
        with self._comparer() as comparer:
            pairs, skipped = self._pairs(comparer)
            results = list(self._compared(comparer, pairs))
            stands = standing(*comparer.sides, self._settings, self._choice)
        look_again(results, self._comparer, wait, self._progress)
        done = Verification(
            lane=self._settings.lane,
            against=self._against,
            tables=len(results),
            rows=sum(one.target_rows for one in results),
            differing=sum(one.differing for one in results),
        )
        self._record(done)
        return VerifyOutcome(results, skipped, done, stands)

    def _compared(self, comparer: Comparer, pairs: list[Pair]) -> Iterator[TableResult]:
        """Each table; those that an earlier call was through with are not looked at."""
        with translated("verify: reading what is compared already"), self._target.begin() as connection:
            known = self._parts.read(connection)
        for pair in pairs:
            at, told = known.get(str(pair), (None, None))
            result = restored(pair, told, at) if at is not None and told is not None else None
            if result is None:
                result = comparer.compare(pair)
                self._keep(result)
                failpoint.reach("verify-table")
            yield result

    def _keep(self, result: TableResult) -> None:
        if not self._is_copy:
            with translated("verify: writing what is compared"), self._target.begin() as connection:
                self._parts.write(connection, result)

    def _pairs(self, comparer: Comparer) -> tuple[list[Pair], list[SkippedTable]]:
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

    def _check(self, *, resume: bool) -> None:
        """Rather now than after hours: what the record needs."""
        schema = self._settings.target.db_schema
        with translated("verify: reading the last record"), self._target.begin() as connection:
            check_revision(connection, schema)
            self._records.last(connection, self._settings.lane)
            self._is_copy = connection.execute(_IS_COPY).scalar_one()
            if not resume and not self._is_copy:
                self._parts.forget(connection)

    def _record(self, done: Verification) -> None:
        """A standby keeps none."""
        if not self._is_copy:
            with translated("verify: writing the record"), self._target.begin() as connection:
                self._records.write(connection, done)
                self._parts.forget(connection)
