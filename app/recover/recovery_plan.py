"""The plan of a recovery from a snapshot: checks, steps, and what would be lost.

Changes nothing, and needs only the snapshot's manifest and Kafka: the target may be gone. A target that answers gives
whether the lane runs, its recent rate, and what operators did since the snapshot.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, text

from app.config.settings import CommitMode, Settings, SnapshotDriver
from app.db.engine import make_engine
from app.db.locks import lock_holder
from app.db.sql import quoted
from app.db.sqlstate import translated
from app.errors import EnvironmentMissing, SurelaneError
from app.kafka.broker import Broker
from app.kafka.replayable import Replayable, replayable
from app.model.offsets import Offsets
from app.recover.archive_reach import archive_reach
from app.snapshot.manifest import Manifest
from app.snapshot.postgres_programs import Programs
from app.snapshot.snapshot_directory import StoredSnapshot
from app.snapshot.target_info import rate

_NAME = "surelane recover"
#: operators' actions on the quarantine, which no replayed message repeats
_SINCE = """
    select count(*) from {schema}.quarantine_event
    where at > :at and (who is not null or what = 'release requested')
"""
_TO = {
    SnapshotDriver.BASEBACKUP: "--to FOLDER --port PORT",
    SnapshotDriver.DUMP: "--to postgresql://ROLE@HOST/NEW_DATABASE",
    SnapshotDriver.RDS: "--to NEW_INSTANCE",
}


@dataclass(frozen=True, kw_only=True)
class PlanCheck:
    """One check of a plan or of its result."""

    what: str
    ok: bool
    #: the finding, in words
    said: str


@dataclass(frozen=True, kw_only=True)
class RecoveryPlan:
    manifest: Manifest
    checks: tuple[PlanCheck, ...]
    #: what the recovery does not bring back
    lost: tuple[str, ...]
    steps: tuple[str, ...]
    #: messages to replay, at most
    messages: int
    #: estimated duration of the replay; None: not known
    seconds: float | None
    headroom_seconds: float
    #: lanes that run on the original target, which have to be stopped; None: it does not answer
    running: tuple[str, ...] | None

    @property
    def command(self) -> str:
        """The command that carries the plan out."""
        return f"surelane recover run --snapshot {self.manifest.name} {_TO[self.manifest.driver]}"

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(check.ok for check in self.checks)


@dataclass(frozen=True, kw_only=True)
class _Target:
    """What the original target reports; `trouble`: why it does not answer."""

    trouble: str | None = None
    #: lanes whose lock is held
    running: tuple[str, ...] = ()
    rate: float | None = None
    #: operators' actions on the quarantine since the snapshot
    done_since: int = 0


def make_plan(settings: Settings, stored: StoredSnapshot, broker: Broker) -> RecoveryPlan:
    """Run all checks; raises Unreachable without Kafka."""
    manifest = stored.manifest
    position = manifest.seen.position
    there = broker.partitions()
    archived = archive_reach(settings, position)
    kept = replayable(broker, position.only(there), archived)
    target = _ask(settings, manifest)
    speed = target.rate or manifest.rate
    checks = (
        *_content(manifest),
        _identity(manifest, broker),
        _kept(position, archived, kept, {str(tp) for tp in position if tp not in there}),
        *_archived(settings, position, kept),
        *_server(settings, manifest),
    )
    return RecoveryPlan(
        manifest=manifest,
        checks=checks,
        lost=tuple(_lost(archived, kept, target)),
        steps=tuple(_steps(manifest, target)),
        messages=kept.messages,
        seconds=kept.messages / speed if speed else None,
        headroom_seconds=kept.headroom_seconds,
        running=target.running if target.trouble is None else None,
    )


def _content(manifest: Manifest) -> Iterator[PlanCheck]:
    lanes = ", ".join(one.lane for one in manifest.seen.lanes)
    found = f"{manifest.seen.position} ({'exact' if manifest.exact else 'at least'}), of {lanes}"
    yield PlanCheck(what="position", ok=bool(lanes), said=found if lanes else "no lane had started when it was made")


def _identity(manifest: Manifest, broker: Broker) -> PlanCheck:
    """Check that cluster and topics have the manifest's ids: offsets mean nothing in another topic."""
    cluster, topics = broker.cluster_id(), broker.topic_ids()
    wrong = [f"cluster is {cluster}, was {manifest.cluster_id}"] if manifest.cluster_id not in (None, cluster) else []
    wrong += [
        f"topic {name} was made anew" if name in topics else f"there is no topic {name}"
        for name, topic_id in manifest.topics.items()
        if topics.get(name) != topic_id
    ]
    return PlanCheck(
        what="topics", ok=not wrong, said="; ".join(wrong) or "cluster and topics are the ones it was made with"
    )


def _kept(position: Offsets, archived: Offsets, kept: Replayable, missing: set[str]) -> PlanCheck:
    gone = [f"{tp} {archived[tp]} to {low - 1}" for tp, low in kept.gone.items()]
    gone += [f"all of {tp}" for tp in sorted(missing)]
    whose = "archive and Kafka have" if kept.elsewhere else "Kafka has"
    found = f"{whose} everything from there on, at most {kept.messages:,} messages"
    return PlanCheck(what="retention", ok=not gone, said=f"Kafka has no longer: {', '.join(gone)}" if gone else found)


def _archived(settings: Settings, position: Offsets, kept: Replayable) -> Iterator[PlanCheck]:
    """What the archive gives, where Kafka no longer has it."""
    parts = [f"{tp} {position[tp]} to {low - 1}" for tp, low in kept.elsewhere.items()]
    if settings.archive is not None and parts:
        found = f"{settings.archive.path} has what Kafka has no longer: {', '.join(parts)}"
        yield PlanCheck(what="archive", ok=True, said=found)


def _server(settings: Settings, manifest: Manifest) -> Iterator[PlanCheck]:
    slots = manifest.content.server.max_prepared_transactions
    if settings.mode is CommitMode.TWO_PHASE and manifest.driver is not SnapshotDriver.DUMP:
        what = f"max_prepared_transactions {slots}, {len(manifest.prepared)} prepared while it was made"
        yield PlanCheck(what="prepared", ok=slots > 0, said=what)
    program = {SnapshotDriver.BASEBACKUP: "pg_ctl", SnapshotDriver.DUMP: "pg_restore"}.get(manifest.driver)
    if program is None:
        return
    folder, major = settings.snapshots.bin_dir, manifest.content.server.major
    exactly = major if manifest.driver is SnapshotDriver.BASEBACKUP else None
    try:
        found = Programs(Path(folder) if folder else None).find(program, at_least=major, exactly=exactly)
        yield PlanCheck(what="programs", ok=True, said=f"{found.path}, {found.version}")
    except EnvironmentMissing as error:
        yield PlanCheck(what="programs", ok=False, said=str(error.message))


def _lost(archived: Offsets, kept: Replayable, target: _Target) -> Iterator[str]:
    for tp, low in kept.gone.items():
        yield f"changes at {tp} {archived[tp]} to {low - 1}: deleted by Kafka before they were replayed"
    if target.done_since:
        yield f"{target.done_since} things that operators did to the quarantine since (release, discard): do them again"
    yield "whatever others than the lane wrote to the target since"


def _steps(manifest: Manifest, target: _Target) -> Iterator[str]:
    name = manifest.name
    running = ", ".join(target.running)
    yield f"stop the lane: {running} runs" if running else "keep the lane stopped"
    yield f"surelane snapshot verify {name}"
    yield f"surelane snapshot restore {name} {_TO[manifest.driver]}"
    yield "set target.url to what it says"
    yield "surelane migrate && surelane doctor"
    yield "surelane recover --from-ledger     forgets the checkpoint, keeps the restored ledger"
    gids = ", ".join(one.gid for one in manifest.prepared)
    along = f"; rolls back first what came along prepared ({gids})" if gids and manifest.driver != "dump" else ""
    yield f"surelane run --until-caught-up     replays{along}"
    yield "surelane verify --against SOURCE --wait 60"


def _ask(settings: Settings, manifest: Manifest) -> _Target:
    target = settings.target
    try:
        with translated("asking the target"), make_engine(target.url, target.owner_role, _NAME).connect() as connection:
            return _read_target(connection, settings, manifest)
    except SurelaneError as error:
        return _Target(trouble=error.message)


def _read_target(connection: Connection, settings: Settings, manifest: Manifest) -> _Target:
    running = [one.lane for one in manifest.seen.lanes if lock_holder(connection, one.lane) is not None]
    since = text(_SINCE.format(schema=quoted(settings.target.db_schema).replace(":", r"\:")))
    done = connection.execute(since, {"at": manifest.made_at}).scalar_one()
    return _Target(running=tuple(running), rate=rate(connection, settings), done_since=done)
