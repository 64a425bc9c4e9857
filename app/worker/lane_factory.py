"""Builds lanes from the settings: which lanes there are, and the parts of each."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from app.align.commit_order import CommitOrder
from app.apply.applier import Applier
from app.apply.compression import compress_by_lz4
from app.apply.foreign_keys import between_tables
from app.apply.rules import TargetRules
from app.apply.table_plans import TablePlans
from app.archive.archive_participant import Archive
from app.archive.committed_files import Folder
from app.archive.rotation import Policy, Rotation
from app.config.on_skip import SkipPolicy
from app.config.redaction import Redaction
from app.config.routes import Routes
from app.config.settings import CommitMode, GuardSettings, Settings
from app.db.engine import make_engine
from app.db.sessions import Looker, Sessions
from app.db.sqlstate import translated
from app.dispatch.ahead import Ahead
from app.dispatch.lane_stage import LaneStage
from app.dispatch.lending import Lending
from app.dispatch.pool import Pool
from app.errors import ConfigInvalid
from app.kafka.unread import UnreadMessages
from app.lane.alignment import Alignment
from app.lane.lane import Lane
from app.ledger.removed_topics import RemovedTopics
from app.ledger.store import Ledger
from app.ledger.table_pauses import TablePauses
from app.metrics.lane_metrics import LaneMetrics
from app.model.death import Death
from app.model.offsets import Offsets, TopicPartition
from app.poison.attempts import Attempts
from app.poison.guard import Guard, Limits
from app.poison.guard_database import guard_engine
from app.poison.in_memory_attempts import InMemoryAttempts
from app.protocol.committer import Committer, OnePhase, TwoPhase
from app.protocol.target_participant import OneCommitTarget
from app.quarantine.paused_tables import PausedTables
from app.quarantine.quarantine import Quarantine
from app.quarantine.quarantine_writer import QuarantineWriter, Rules
from app.quarantine.releases import QuarantineReleases
from app.source.kept import messages_to_keep
from app.spark.package import ship
from app.spark.session import ComingSession
from app.spark.session_options import is_local
from app.stage.stager import StageConfig
from app.supervisor.link import Link
from app.transform.function import load
from app.transform.sql.analysis import rules_of
from app.worker.lane_writer import LaneWriter
from app.worker.session_resources import check_channel, tasks_of, variables_of_tasks
from app.worker.stored_message_decoder import StoredMessages


def add_writers(
    settings: Settings,
    writers: dict[str, LaneWriter],
    partitions: list[TopicPartition],
    watch: Link,
    metrics: Mapping[str, LaneMetrics],
    pool: Pool | None,
    who: str = "surelane",
) -> None:
    """Add a writer for each lane that has none yet: one for everything, or one for each partition. `pool`: None
    for a query, which has no archive; `who`: prefix of the sessions' application_name."""
    target = settings.target
    at_target, at_guard = _lookers(settings, who)
    for name, partition in _lanes(settings, partitions).items():
        if name not in writers:
            engine = compress_by_lz4(make_engine(target.url, target.owner_role, f"{who} {name}"))
            sessions = Sessions(engine, at_target)
            guard, more = _guard(settings, name, watch, metrics[name], at_guard, who)
            ledger, quarantine = Ledger(target.db_schema, name), Quarantine(target.db_schema, name)
            archive = None if pool is None else make_archive(settings, name, pool)
            writers[name] = LaneWriter(
                name=name,
                engine=engine,
                ledger=ledger,
                partition=partition,
                guard=guard,
                quarantine=quarantine,
                archive=archive,
                sessions=(sessions, *more),
            )


def make_archive(settings: Settings, lane: str, pool: Pool) -> Archive | None:
    """The archive of a lane, whose messages the pool's tasks read; None where archiving is off."""
    config = settings.archive
    if config is None:
        return None
    folder = Folder(Path(config.path), lane)
    policy = Policy(
        file_bytes=config.file_bytes,
        file_age=config.file_age.total_seconds(),
        keep_age=config.keep_age.total_seconds() if config.keep_age else None,
        keep_bytes=config.keep_bytes,
        level=config.level,
    )
    rotation = Rotation(Folder(Path(config.path), lane), policy)
    return Archive(folder, partial(messages_to_keep, pool, lane, config.level), config.level, rotation.notice)


def known_partitions(writers: Iterable[LaneWriter]) -> set[TopicPartition] | None:
    """The partitions that the lanes' ledgers have positions of; None: a lane has no row yet, so `source.start`
    applies."""
    known: set[TopicPartition] = set()
    for writer in writers:
        with translated(f"lane {writer.name}: reading the ledger"), writer.engine.connect() as connection:
            if (last := writer.ledger.last(connection)) is None:
                return None
            known |= set(last.span.end)
    return known


def removed_partitions(writers: Iterable[LaneWriter]) -> Offsets:
    """The partitions that the lanes do not read any more: where each was when it was removed."""
    found = Offsets()
    for writer in writers:
        with translated(f"lane {writer.name}: reading the ledger"), writer.engine.connect() as connection:
            found = found.updated(RemovedTopics(writer.ledger.schema, writer.name).find(connection))
    return found


def make_lane(
    settings: Settings,
    writer: LaneWriter,
    metrics: LaneMetrics,
    stored: StoredMessages,
    publish: Callable[[float], None],
    pool: Pool,
    link: Link,
    death: Death | None = None,
    unread: UnreadMessages | None = None,
) -> Lane:
    """The lane of an opened writer. `publish` is called when a prepared epoch has become visible; `death`: of the
    previous worker; `unread`: unread messages of Kafka, None: epochs keep the order within each topic only; `pool`:
    the tasks that stage its epochs."""
    assert writer.connection is not None, "just opened"
    target = settings.target
    rules = TargetRules(target, settings.source.modes)
    shapes = TablePlans(writer.engine, target.db_schema, writer.name, rules, stored.schema)
    shapes.reset()
    metrics.set_generation(writer.generation)
    applier, quarantine = Applier(writer.name, shapes), writer.quarantine
    lending = Lending(writer.engine, target.db_schema, writer.name)
    paused = PausedTables(
        TablePauses(target.db_schema, writer.name), Routes(target.tables), quarantine, settings.limits.parked_messages
    )
    keeping = QuarantineWriter(
        writer.name, writer.generation, quarantine, writer.guard, quarantine_rules(settings.guard), paused
    )
    writer.release_wanted.set()  # requests may be left from a time when no lane ran
    releasing = QuarantineReleases(
        writer.generation,
        writer.ledger,
        quarantine,
        keeping,
        applier,
        writer.guard,
        stored.decode,
        writer.release_wanted,
    )
    lane = Lane(
        writer.name,
        writer.generation,
        writer.connection,
        writer.ledger,
        make_committer(settings.mode, writer, publish),
        applier,
        writer.guard,
        keeping,
        releasing,
        metrics,
        Alignment(writer.name, settings.epoch.transaction_limit, _order(settings, writer, unread)),
        pool.tried,
        LaneStage(
            writer.name,
            pool,
            shapes,
            lending,
            held_keys=lambda: [key.text for key in keeping.keys],
            still=link.still,
            for_driver=metrics.for_driver,
        ),
    )
    writer.guard.open(writer.generation, lane.position, death)
    metrics.set_position(lane.position)
    return lane


def make_pool(settings: Settings, spark: ComingSession, *, keeps_order: bool = True) -> Pool:
    """The pool of tasks that stage. `keeps_order`: between topics, too. Raises ConfigInvalid."""
    check_channel(settings)
    # Java counts the container's cores
    tasks = tasks_of(settings, spark.java.java.lang.Runtime.getRuntime().availableProcessors())
    if not is_local(settings.spark.master):
        ship(spark.get().sparkContext)
    target = settings.target
    function = settings.transform.function if settings.transform else None
    if function is not None:
        load(function)  # reports a faulty function before the start
    config = StageConfig(
        settings.source,
        target.url,
        target.owner_role,
        transaction_limit=settings.epoch.transaction_limit,
        max_held=settings.epoch.max_held_messages if keeps_order else 0,
        function=function,
        sql=rules_of(spark.get(), settings.sql) if settings.sql else (),
        variables=variables_of_tasks(settings),
    )
    return Pool(
        spark,
        config,
        tasks,
        settings.guard.message_timeout.total_seconds(),
        ahead=Ahead(settings.stage.ahead_bytes),
        least=settings.stage.tasks or 1,
    )


def commit_at_once(lane: Lane, writer: LaneWriter) -> None:
    """Until the lane is opened again, one COMMIT ends each epoch, without checkpoint and without other participants."""
    assert writer.connection is not None, "just opened"
    lane.committer = OnePhase(OneCommitTarget(writer.connection), reapplies=False)
    lane.apply_as_planned()


def _order(settings: Settings, writer: LaneWriter, unread: UnreadMessages | None) -> CommitOrder | None:
    if unread is None or writer.partition is not None:
        return None
    routes = Routes(settings.target.tables)

    def has_foreign_keys() -> bool:
        with translated(f"lane {writer.name}: looking for foreign keys"), writer.engine.connect() as connection:
            return bool(between_tables(connection, routes))

    return CommitOrder(writer.name, settings.epoch.max_held_messages, unread, has_foreign_keys)


def _lanes(settings: Settings, partitions: list[TopicPartition]) -> Mapping[str, TopicPartition | None]:
    if settings.source.is_by_partition:
        return {settings.lane_of(tp): tp for tp in partitions}
    check_total(partitions)
    return {settings.lane: None}


def check_total(partitions: Iterable[TopicPartition]) -> None:
    """Raises ConfigInvalid where `source.order: total` is impossible: a topic has several partitions."""
    several = sorted({tp.topic for tp in partitions if tp.partition > 0})
    if several:
        raise ConfigInvalid(
            f"source.order: total needs topics of one partition; {', '.join(several)} has more",
            hint="write order: partition (one lane for each partition), or let Debezium write to one partition "
            "(topic.creation.default.partitions=1). Added to a topic that the lane reads already: "
            'ops/runbooks/topic-recreated.md, "Partitions were added"',
        )


def make_committer(mode: CommitMode, writer: LaneWriter, publish: Callable[[float], None]) -> Committer:
    if mode is CommitMode.TWO_PHASE:
        return TwoPhase(writer.prepared(), writer.others, publish)
    assert writer.connection is not None, "just opened"
    return OnePhase(OneCommitTarget(writer.connection), writer.others, reapplies=mode is CommitMode.AT_LEAST_ONCE)


def _guard(
    settings: Settings, lane: str, watch: Link, metrics: LaneMetrics, looker: Looker, who: str
) -> tuple[Guard, tuple[Sessions, ...]]:
    """The guard of a lane on its own connections, and the sessions of these."""
    config = settings.guard
    limits = Limits(max_attempts=config.max_attempts, max_losses=config.max_losses)
    if not config.enabled:
        return Guard(InMemoryAttempts(lane, discreet=bool(config.redact)), limits, metrics=metrics), ()
    engine = guard_engine(settings, f"{who} {lane} guard")
    attempts = Attempts(
        engine, settings.target.db_schema, lane, discreet=bool(config.redact), waiting=watch.at_database
    )
    return Guard(attempts, limits, watch, metrics), (Sessions(engine, looker),)


def _lookers(settings: Settings, who: str) -> tuple[Looker, Looker]:
    """One Looker at the target and one at the guard's database, shared by all lanes: a login has few connections."""
    name = f"{who} {settings.lane} watch"
    at_target = Looker(make_engine(settings.target.url, None, name))
    url = settings.guard.url
    return at_target, at_target if url is None else Looker(make_engine(url, None, name))


def quarantine_rules(config: GuardSettings) -> Rules:
    return Rules(
        policy=SkipPolicy(config.on_skip, config.on_skip_tables),
        redaction=Redaction(config.redact),
        max_parked_keys=config.max_parked_keys,
        breaker=config.breaker,
    )
