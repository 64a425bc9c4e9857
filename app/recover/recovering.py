"""A recovery from a snapshot: carries out the plan of `app.recover.recovery_plan`.

Promise: after any death the same call goes on, and its result is the target as if nothing had been lost. It never
writes to the original target and only holds its lanes' locks while it answers. It overwrites nothing. Every step may be
repeated, so that a death between a step and its line in the journal only costs time:

    check      reads only; repeated until the snapshot is restored
    restore    finds its earlier result by the mark that it left there (`app.snapshot`)
    in-doubt   a recorded answer is not given twice (`app.recover.answering`)
    ledger     a second claim only makes another generation
    replay     the lane's start settles what a killed lane left; the goal is that of the first replay
    verify     only records who called the recovery, which is done once

The in-doubt transactions are rolled back whatever the checkpoint decided: their epochs lie behind the restored ledger's
end, so the replay applies them again. A checkpoint that moved on no longer has the decision on them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from app import failpoint
from app.config.settings import CommitMode, Settings, SnapshotDriver
from app.db.engine import make_engine
from app.db.prepared import prepared
from app.db.sqlstate import translated
from app.errors import ConfigInvalid, Diverged, EnvironmentMissing, Refused, SurelaneError, TargetMismatch
from app.kafka.broker import Broker
from app.ledger.migrations import upgrade
from app.model.gid import Gid
from app.model.offsets import Offsets
from app.recover.answering import Answering
from app.recover.catch_up import reached, replay
from app.recover.from_ledger import recover_from_ledger
from app.recover.in_doubt_evidence import source_of
from app.recover.in_doubt_overview import Observer
from app.recover.journal import LOG, Course, Journal, Step, StepState, journal
from app.recover.original_target_lock import OriginalTarget, held
from app.recover.post_checks import sound
from app.recover.recovery_orders import RecoveryOrders
from app.recover.recovery_plan import PlanCheck, make_plan
from app.recover.verdict import PAST, OperatorAnswer
from app.snapshot.driver import RestorePlace
from app.snapshot.snapshot_directory import Progress, StoredSnapshot
from app.snapshot.snapshots import Snapshots
from app.snapshot.target_info import server

_NAME = "surelane recover"
#: faults of a damaged snapshot that an error shows
FAULTS_SHOWN = 10
#: seconds between two lines of the journal on how far the replay is
PROGRESS_SECONDS = 5.0
#: query parameters of a URL that name the server
_WAY = ("host", "hostaddr", "port")


@dataclass(frozen=True, kw_only=True)
class RecoveryOptions:
    """The options of the command line."""

    #: None: the journal's
    destination: RestorePlace | None = None
    #: how the lane reaches the restored target; None: by `target.url` with the new place
    url: URL | None = None
    #: whether other programs' prepared transactions are rolled back, too
    foreign: bool = False
    #: whether to give up what an earlier call began
    anew: bool = False
    #: why, for the journal
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Recovered:
    snapshot: str
    course: Course
    #: URL of the restored target; None: the recovery was finished before
    url: URL | None
    #: the checks of `verify`
    checks: tuple[PlanCheck, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


class Recovering:
    """One call of a recovery. It calls `say` after each step, and `progress` meanwhile."""

    def __init__(
        self,
        settings: Settings,
        options: RecoveryOptions,
        *,
        lane: Sequence[str],
        compare: Callable[[Settings], PlanCheck] | None,
        who: tuple[str, str],
        say: Callable[[Step, str], None],
        progress: Progress,
    ) -> None:
        """`lane`: the command that runs the lane until it has caught up; `compare`: with another database."""
        self.settings, self.options = settings, options
        self.lane, self.compare, self.who = lane, compare, who
        self.say, self.progress = say, progress
        self.snapshots = Snapshots(settings, progress)

    def run(self, name: str) -> Recovered:
        """Go on from where the recovery stopped; raises the error that a step ends with."""
        stored = self.snapshots.directory.get(name)
        with journal(stored) as book:
            destination = self._destination(book, stored)
            if book.course.finished:
                return Recovered(snapshot=name, course=book.course, url=None)
            shown, options = replace(destination, to=_without_password(destination.to)), self.options
            book.order(*self.who, options.reason, shown, foreign=options.foreign, anew=options.anew)
            with held(self.settings, self._lanes_to_hold(stored, book)) as original:
                return _Run(self, stored, book, original, destination).run()

    def _destination(self, book: Journal, stored: StoredSnapshot) -> RestorePlace:
        """The destination; a new one begins a new recovery in the journal."""
        wished, place, name = self.options.destination, book.course.place, stored.manifest.name
        if wished is None:
            if place is None:
                raise ConfigInvalid("say where the snapshot is to be restored to", hint="--to PLACE, a new one")
            return place
        if stored.manifest.driver is SnapshotDriver.BASEBACKUP:  # a later call may have another working directory
            wished = replace(wished, to=str(Path(wished.to).expanduser().absolute()))
        named = replace(wished, to=_without_password(wished.to))
        if place is not None and _same_place(named.to, place.to) and not self.options.anew:
            return _together(wished, place)
        something_there = book.course.steps[Step.RESTORE].state in (StepState.BEGUN, StepState.DONE)
        if place is not None and something_there and not (book.course.finished or self.options.anew):
            raise Refused(
                f"a recovery from {name} to {place.to} is not finished",
                hint=f"go on with it: surelane recover run --snapshot {name}; or give it up: add --anew",
            )
        book.begin_anew(named)
        return wished

    def _lanes_to_hold(self, stored: StoredSnapshot, book: Journal) -> list[str]:
        """The original's lanes; none where target.url names the restored target already: there the replay locks."""
        there = book.course.steps[Step.RESTORE].facts.get("place")
        if there == _place(self.settings.target.url):
            return []
        return [one.lane for one in stored.manifest.seen.lanes]


def _together(wished: RestorePlace, place: RestorePlace) -> RestorePlace:
    """Merge the options of this call, such as another port or a password, into those of an earlier one."""
    slots = wished.max_prepared_transactions
    return RestorePlace(
        to=wished.to,
        port=place.port if wished.port is None else wished.port,
        max_prepared_transactions=place.max_prepared_transactions if slots is None else slots,
        owners=wished.owners and place.owners,
    )


class _Run:
    """The steps of one call."""

    def __init__(
        self, of: Recovering, stored: StoredSnapshot, book: Journal, original: OriginalTarget, destination: RestorePlace
    ) -> None:
        self._of, self._stored, self._book, self._original = of, stored, book, original
        self._destination = destination
        self._checks: tuple[PlanCheck, ...] = ()
        self._noted_at = 0.0
        before = book.course.steps[Step.RESTORE]
        #: whether no earlier call of this recovery can have restored anything
        self._is_first = before.state in (StepState.WAITING, StepState.FAILED) and not before.facts

    def run(self) -> Recovered:
        """Run the steps that are not done, in order."""
        course = self._book.course
        if not course.is_done(Step.RESTORE):
            self._step(Step.CHECK, self._check)
            self._step(Step.RESTORE, self._restore)
        else:
            self._of.say(Step.RESTORE, f"{self._restore()} (before)")
        for step, do in (
            (Step.IN_DOUBT, self._in_doubt),
            (Step.LEDGER, self._ledger),
            (Step.REPLAY, self._replay),
            (Step.VERIFY, self._verify),
        ):
            if course.is_done(step):
                self._of.say(step, f"{course.steps[step].said} (before)")
                continue
            self._original.check()
            self._step(step, do)
        name, url = self._stored.manifest.name, self._restored.target.url
        return Recovered(snapshot=name, course=self._book.course, url=url, checks=self._checks)

    def _step(self, step: Step, do: Callable[[], str]) -> None:
        self._of.progress(f"{step} ...")
        self._book.begin(step)
        try:
            outcome = do()
        except SurelaneError as error:
            self._book.end(step, StepState.FAILED, error.message)
            raise
        failpoint.reach(f"recover-{step}")
        wrong = step is Step.VERIFY and not all(check.ok for check in self._checks)
        self._book.end(step, StepState.FAILED if wrong else StepState.DONE, outcome)
        self._of.say(step, outcome)

    def _check(self) -> str:
        """Run the plan's checks, and read the whole snapshot once."""
        name = self._stored.manifest.name
        with Broker(self._of.settings.source) as broker:
            plan = make_plan(self._of.settings, self._stored, broker)
        hint = f"surelane recover plan --snapshot {name}. Nothing was done"
        if not plan.ok:
            wrong = "; ".join(f"{check.what}: {check.said}" for check in plan.checks if not check.ok)
            raise Diverged(f"snapshot {name} does not lead back: {wrong}", hint=hint)
        faults = self._of.snapshots.faults(name)
        if faults:
            raise Refused(
                f"snapshot {name} is not what was made: {'; '.join(faults[:FAULTS_SHOWN])}",
                hint="take another one: surelane snapshot list. Nothing was done",
            )
        whose = "archive and Kafka have" if any(one.what == "archive" for one in plan.checks) else "Kafka has"
        found = f"{name} is sound, {whose} everything from there on; at most {plan.messages:,} messages to replay"
        trouble = self._original.trouble
        return f"{found}. The original does not answer: see that no lane runs on it ({trouble})" if trouble else found

    def _restore(self) -> str:
        """Restore the snapshot; when that is done already, find the result and start its server if it is stopped."""
        stored, restored = self._of.snapshots.restore(self._stored.manifest.name, self._destination, verified=True)
        if restored.seen is None:
            raise EnvironmentMissing(
                f"restored at {restored.url.render_as_string()}, but its ledger cannot be read: {restored.trouble}",
                hint="mend what it says, then call this again",
            )
        if self._book.course.is_done(Step.RESTORE) and not restored.before:
            raise Refused(
                f"what this recovery had restored is gone, so it was restored once more at {self._destination.to}",
                hint="begin there: the same call with --to and --anew",
            )
        self._stored = stored
        settings = self._of.settings
        recorded = self._book.course.steps[Step.RESTORE].facts.get("url")
        url = self._of.options.url or _lane_url(settings.target.url, restored.url, recorded)
        if _place(url) == _place(settings.target.url):
            if restored.before and self._is_first:
                raise Refused(
                    f"{_place(url)} is the target itself, and was restored from this snapshot before",
                    hint="recover to a new place: another --to",
                )
            self._original.forget()
        self._restored = settings.model_copy(update={"target": settings.target.model_copy(update={"url": url})})
        self._engine = make_engine(url, settings.target.owner_role, _NAME)
        if not self._book.course.is_done(Step.RESTORE):
            recorded = recorded if self._of.options.url is None else _without_password(url)
            self._book.begin(Step.RESTORE, place=_place(url), url=recorded)
        self._check_slots()
        return f"{_without_password(url)}, {restored.seen.position}"

    def _check_slots(self) -> None:
        """Raises TargetMismatch where a two-phase lane got a server that cannot prepare: a dump may go to any."""
        with translated("asking the restored server"), self._engine.connect() as connection:
            found = server(connection).max_prepared_transactions
        if self._restored.mode is CommitMode.TWO_PHASE and not found:
            raise TargetMismatch(
                "the restored server has max_prepared_transactions 0, and the lane commits in two phases",
                hint="set it there, restart that server, and call this again",
            )

    def _in_doubt(self) -> str:
        """Roll back every prepared transaction of the database; migrates the schema first, which the record needs."""
        schema, settings = self._restored.target.db_schema, self._restored
        with translated("migrating what was restored"):
            upgrade(self._engine, schema)
        self._record_orders()
        several = settings.source.is_by_partition
        observer = Observer(schema, settings.lane, source_of(settings.checkpoint, None), several=several)
        engine = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        with translated("rolling back what came along prepared"), engine.connect() as connection:
            gids = [one.gid for one in prepared(connection)]
            self._refuse_foreign(observer, gids)
            reason = f"restored from snapshot {self._stored.manifest.name}: the replay applies it anew"
            begun = [one.gid for one in observer.answers.unfinished(connection) if one.reason == reason]
            os_user, host = self._of.who
            answering = Answering(observer, os_user=os_user, host=host)
            given = [
                answering.give(connection, gid, OperatorAnswer.ROLLBACK, reason=reason, force=True)
                for gid in dict.fromkeys([*begun, *gids])
            ]
        return ", ".join(f"{one.gid} {PAST[one.answer]}, answer {one.id}" for one in given) or "nothing was prepared"

    def _record_orders(self) -> None:
        """Who called, and why, as rows of what was restored."""
        orders = RecoveryOrders(self._restored.target.db_schema, self._restored.lane)
        with translated("recording who called the recovery"), self._engine.begin() as connection:
            orders.write(connection, self._stored.manifest.name, self._book.course.orders)

    def _refuse_foreign(self, observer: Observer, gids: Sequence[str]) -> None:
        if self._of.options.foreign:
            return
        foreign = [text for text in gids if (gid := Gid.parse(text)) is None or not observer.is_mine(gid)]
        if foreign:
            name = self._stored.manifest.name
            raise Refused(
                f"not of this lane, and prepared in what was restored, with locks: {', '.join(foreign)}",
                hint="its owner decides what becomes of it in a copy. To roll it back there: "
                f"surelane recover run --snapshot {name} --roll-back-foreign",
            )

    def _ledger(self) -> str:
        with Broker(self._restored.source) as broker:
            found = recover_from_ledger(self._restored, self._engine, broker, dry_run=False)
        return "; ".join(
            f"lane {one.lane} goes on at {one.position}, at most {one.messages:,} messages to replay" for one in found
        )

    def _replay(self) -> str:
        goal = self._goal()
        before = reached(self._restored, self._engine)
        if "first" not in self._book.course.steps[Step.REPLAY].facts:
            self._book.progress(Step.REPLAY, first=before.nested())
        self._note(before)
        position = replay(
            self._restored,
            self._engine,
            self._of.lane,
            goal,
            self._stored.folder / LOG,
            self._original.look,
            self._show_replay,
        )
        self._note(position)
        if left := position.left_to(goal):
            raise Refused(
                f"the replay was stopped before its end, {left:,} messages are left",
                hint=f"go on with it: surelane recover run --snapshot {self._stored.manifest.name}",
            )
        return f"from {before} to {position}"

    def _show_replay(self, words: str, position: Offsets) -> None:
        self._of.progress(words)
        if time.monotonic() - self._noted_at >= PROGRESS_SECONDS:
            self._note(position)

    def _note(self, position: Offsets) -> None:
        """How far the replay is, for who looks at the journal."""
        self._noted_at = time.monotonic()
        self._book.progress(Step.REPLAY, position=position.nested())

    def _goal(self) -> Offsets:
        """Where Kafka ended when the first replay of this recovery began; recorded in the journal."""
        recorded = self._book.course.steps[Step.REPLAY].facts.get("goal")
        if recorded is not None:
            return Offsets.from_nested(recorded)
        with Broker(self._restored.source) as broker:
            marks = broker.watermarks(broker.partitions())
        goal = Offsets.of({tp: mark.high for tp, mark in marks.items()})
        self._book.begin(Step.REPLAY, goal=goal.nested())
        return goal

    def _verify(self) -> str:
        self._record_orders()  # those that went on with it, too
        position = reached(self._restored, self._engine)
        with translated("looking at what was replayed"), self._engine.connect() as connection:
            checks = list(sound(connection, self._restored, position, self._goal()))
        if self._of.compare is not None:
            checks.append(self._of.compare(self._restored))
        self._checks = tuple(checks)
        return "; ".join(f"{'' if check.ok else 'FAULT '}{check.what}: {check.said}" for check in checks)


def _lane_url(original: URL, restored: URL, recorded: str | None) -> URL:
    """The original's URL at the place of the restored target; or the `recorded` one, which has no password."""
    if recorded is not None:
        url = make_url(recorded)
        return url.set(password=original.password) if url.username == original.username else url
    way = {name: value for name, value in restored.query.items() if name in _WAY}
    url = original.difference_update_query(_WAY).update_query_dict(way)
    return url.set(host=restored.host, port=restored.port, database=restored.database)


def _without_password(text: str | URL) -> str:
    """A URL without its password; other text stays as it is."""
    try:
        return make_url(text).set(password=None).difference_update_query(["password"]).render_as_string()
    except ArgumentError:
        return str(text)


def _same_place(one: str, other: str) -> bool:
    """Whether two destinations are one; a URL may name its driver, or not."""
    try:
        urls = [make_url(text) for text in (one, other)]
    except ArgumentError:
        return one == other
    return len({url.set(drivername=url.get_backend_name()) for url in urls}) == 1


def _place(url: URL) -> str:
    """Host, port and name of a database, without the user."""
    return f"{url.host or url.query.get('host')}:{url.port or url.query.get('port') or 5432}/{url.database}"
