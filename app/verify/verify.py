"""A whole comparison: pairs the tables, compares each, compares differing keys again, and writes the record.

The target keeps the result of each compared table, so that another call can resume a killed comparison.
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
from app.ledger.revision import check_revision
from app.verify.compare import Comparer
from app.verify.outcome_document import KEPT_KEYS, outcome_document
from app.verify.pair import Pair
from app.verify.pairs import Choice, Pairing, SkippedTable
from app.verify.parts import Parts, restored
from app.verify.positions import SidePositions, standing
from app.verify.recheck import look_again
from app.verify.result import TableResult
from app.verify.side import snapshot
from app.verify.verification_records import Verification, Verifications, place
from app.verify.verification_runs import VerificationRuns

NAME = "surelane verify"
_IS_COPY = text("select pg_is_in_recovery()")
Progress = Callable[[str], None]


@dataclass(frozen=True)
class VerifyOutcome:
    """The outcome of a comparison."""

    tables: list[TableResult]
    skipped: list[SkippedTable]
    record: Verification
    #: None: the other side is no replay
    standing: SidePositions | None = None

    @property
    def equal(self) -> bool:
        """Whether every compared table is equal."""
        return self.record.differing == 0


class Verify:
    """Compares the target of a lane's configuration with another database, or with another schema of its own."""

    def __init__(self, settings: Settings, against: URL | None, choice: Choice, progress: Progress) -> None:
        """`against`: the other database; None: the target's own."""
        self._settings, self._choice, self._progress = settings, choice, progress
        self._pairing = Pairing(settings, choice)
        target = settings.target
        self._target = make_engine(target.url, target.owner_role, NAME)
        self._other = self._target if against is None else make_engine(against, None, NAME)
        self._against = place(against or target.url) + (f" schema {choice.schema}" if choice.schema else "")
        self._records = Verifications(target.db_schema)
        self._runs = VerificationRuns(target.db_schema, settings.lane)
        self._parts = Parts(target.db_schema, settings.lane, self._against, choice)
        #: whether the target is a standby, which cannot keep results
        self._is_copy = False

    def run(self, wait: float = 0, *, resume: bool = False) -> VerifyOutcome:
        """`wait`: seconds for which differing keys are compared again; `resume`: go on with a killed comparison."""
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
        outcome = VerifyOutcome(results, skipped, done, stands)
        self._record(outcome)
        return outcome

    def _compared(self, comparer: Comparer, pairs: list[Pair]) -> Iterator[TableResult]:
        """The result of each table; one that an earlier call compared is not compared again."""
        with translated("verify: reading what is compared already"), self._target.begin() as connection:
            known = self._parts.read(connection)
        for pair in pairs:
            at, kept = known.get(str(pair), (None, None))
            result = restored(pair, kept, at) if at is not None and kept is not None else None
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
        """Check what writing the record needs before the long comparison."""
        schema = self._settings.target.db_schema
        with translated("verify: reading the last record"), self._target.begin() as connection:
            check_revision(connection, schema)
            self._records.last(connection, self._settings.lane)
            self._is_copy = connection.execute(_IS_COPY).scalar_one()
            if not resume and not self._is_copy:
                self._parts.forget(connection)

    def _record(self, outcome: VerifyOutcome) -> None:
        """Write the record and the run, unless the target is a standby."""
        if not self._is_copy:
            done = outcome.record
            document = outcome_document(done, outcome.tables, outcome.skipped, outcome.standing, KEPT_KEYS)
            with translated("verify: writing the record"), self._target.begin() as connection:
                self._records.write(connection, done)
                self._runs.write(connection, done, document)
                self._parts.forget(connection)
