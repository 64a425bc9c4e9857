"""Settings of a lane: the keys of `surelane.yaml`, their types and defaults.

Names equal those of the file; `docs/CONFIG.md` explains each. A check of two keys is a validator of the later one and
skips an invalid earlier one, so that one validation finds every fault.
"""

import datetime
import enum
import re
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from sqlalchemy import URL

from app.config import values
from app.config.modes import DEFAULT_MODES, Modes
from app.config.on_skip import OnSkip
from app.config.queries import QuerySettings, query_names
from app.config.rollups import RollupSettings, rollup_names
from app.errors import ConfigInvalid
from app.model.offsets import Offsets, TopicPartition

DEFAULT_METRICS_PORT = 9108
#: a stage process has an epoch in memory: at 1 kB a message this is 2 GB
MAX_EPOCH_MESSAGES = 2_000_000
#: each is a process with its own connections
MAX_STAGE_TASKS = 64
#: a year: the longest window in which the breaker counts quarantined messages
MAX_BREAKER_MINUTES = 525_600


class StartAt(enum.StrEnum):
    """Where a lane begins that the ledger knows nothing of."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Format(enum.StrEnum):
    """How messages are written."""

    DEBEZIUM_JSON = "debezium-json"


class Order(enum.StrEnum):
    """What is kept in order."""

    TOTAL = "total"  #: one lane over everything
    PARTITION = "partition"  #: one lane for each partition of one topic


class UnknownTable(enum.StrEnum):
    """What to do with changes of a table no route takes."""

    STOP = "stop"
    IGNORE = "ignore"


class UnknownColumn(enum.StrEnum):
    """What to do with values of a column that the target's table does not have."""

    STOP = "stop"
    IGNORE = "ignore"


class SchemaEvolution(enum.StrEnum):
    """What to do when a message needs more than the target's table has."""

    STOP = "stop"  #: the lane stops, with the DDL to run
    IGNORE = "ignore"  #: values for missing columns are left out, values that do not fit are refused one by one
    ADD_COLUMNS = "add-columns"  #: missing columns are added where the message has their type; else as `stop`


class OnTruncate(enum.StrEnum):
    """What becomes of the rows when the source truncates a table."""

    STOP = "stop"  #: the lane stops in front of the message
    IGNORE = "ignore"  #: the rows stay
    APPLY = "apply"  #: the rows are deleted


class Delivery(enum.StrEnum):
    """What is promised of each message."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class Commit(enum.StrEnum):
    """How exactly-once is reached."""

    TWO_PHASE = "two-phase"  #: PREPARE TRANSACTION, decided by Spark's checkpoint
    LEDGER = "ledger"  #: one COMMIT; a replayed epoch finds its ledger row


class CommitMode(enum.Enum):
    """Delivery and commit in one: what the committer is chosen by, once."""

    AT_LEAST_ONCE = "at-least-once"
    TWO_PHASE = "two-phase"
    LEDGER = "ledger"


class Strategy(enum.StrEnum):
    """When a worker that died is started again: Flink's restart strategies."""

    EXPONENTIAL_DELAY = "exponential-delay"  #: always, after growing pauses
    FIXED_DELAY = "fixed-delay"  #: a limited number of times
    FAILURE_RATE = "failure-rate"  #: while failures in an interval do not exceed a limit
    NONE = "none"  #: never


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_by_alias=True,
        arbitrary_types_allowed=True,
    )


_Texts = Annotated[dict[str, str], BeforeValidator(values.texts)]
_PasswordFrom = Annotated[str, AfterValidator(values.password_from)]
_Duration = Annotated[datetime.timedelta, PlainValidator(values.duration)]
_SomeTime = Annotated[_Duration, AfterValidator(values.longer_than_nothing)]


def _with_password_from(url: URL | None, info: ValidationInfo) -> URL | None:
    place = info.data.get("password_from")
    if url is None and place is not None:
        raise values.fault("password_from without a URL of its own", "add url here, or leave password_from out")
    return None if url is None else values.with_password_from(url, place)


class SecurityProtocol(enum.StrEnum):
    """How both clients come to Kafka."""

    PLAINTEXT = "plaintext"  #: or as in `source.options`
    TLS = "tls"  #: the brokers have certificates
    SCRAM = "scram"  #: name and password, over TLS
    MTLS = "mtls"  #: certificates on both sides
    MSK_IAM = "msk-iam"  #: Amazon MSK, with the process' identity in AWS


#: required keys and optional keys of each protocol
_NEEDS: dict[SecurityProtocol, tuple[set[str], set[str]]] = {
    SecurityProtocol.PLAINTEXT: (set(), set()),
    SecurityProtocol.TLS: (set(), {"ca"}),
    SecurityProtocol.SCRAM: ({"password_from"}, {"ca", "username"}),
    SecurityProtocol.MTLS: ({"certificate", "key"}, {"ca", "key_password_from"}),
    SecurityProtocol.MSK_IAM: (set(), {"ca", "region"}),
}


class ScramMechanism(enum.StrEnum):
    """Hashes that Kafka knows passwords by."""

    SHA_512 = "SCRAM-SHA-512"  #: the one of Amazon MSK
    SHA_256 = "SCRAM-SHA-256"


class SecuritySettings(_Section):
    """The way to Kafka: short for options of two clients."""

    protocol: Annotated[SecurityProtocol, AfterValidator(values.has_its_libraries)] = SecurityProtocol.PLAINTEXT
    #: file with the CA certificates (PEM) of the brokers; None: those that the machine trusts
    ca: Annotated[str, AfterValidator(values.certificates)] | None = None
    certificate: Annotated[str, AfterValidator(values.certificates)] | None = None
    key: Annotated[str, AfterValidator(values.private_key)] | None = None
    key_password_from: _PasswordFrom | None = None
    mechanism: ScramMechanism = ScramMechanism.SHA_512
    username: Annotated[str, Field(min_length=1)] | None = None
    password_from: _PasswordFrom | None = None
    #: region of the cluster; None: as AWS' libraries find it
    region: Annotated[str, AfterValidator(values.region)] | None = None

    @field_validator("ca", "certificate", "key", "key_password_from", "username", "password_from", "region")
    @classmethod
    def _fits_the_protocol(cls, given: str | None, info: ValidationInfo) -> str | None:
        protocol = info.data.get("protocol")
        if not isinstance(protocol, SecurityProtocol):
            return given
        (needed, possible), name = _NEEDS[protocol], str(info.field_name)
        if given is None and name in needed:
            raise values.fault(f"protocol {protocol} needs it", "see docs/CONFIG.md, Security of the Kafka connection")
        if given is not None and name not in needed | possible:
            known = ", ".join(sorted(needed | possible)) or "nothing else"
            raise values.fault(f"protocol {protocol} has no use for it", f"{protocol} takes {known}")
        return given

    @field_validator("password_from")
    @classmethod
    def _has_a_name(cls, place: str | None, info: ValidationInfo) -> str | None:
        if place is not None and info.data.get("username", "") is None and not place.startswith("secretsmanager:"):
            raise values.fault("who logs in?", "add username; only a secret of Secrets Manager may have it inside")
        if place is not None and place.startswith("rds-iam"):
            raise values.fault("rds-iam is for databases", "for Amazon MSK with IAM write protocol: msk-iam")
        return place


class SourceSettings(_Section):
    """Where the messages come from."""

    bootstrap_servers: Annotated[str, AfterValidator(values.bootstrap_servers)]
    topics: Annotated[tuple[str, ...], BeforeValidator(values.names)] = ()
    topic_pattern: Annotated[str, AfterValidator(values.topic_pattern)] | None = None
    start: Annotated[StartAt | Offsets, BeforeValidator(values.start)] = StartAt.EARLIEST
    format: Format = Format.DEBEZIUM_JSON
    #: whether compiled code reads and decodes ordinary messages, once there are enough of them
    compiled: bool = True
    order: Order = Order.TOTAL
    modes: Modes = DEFAULT_MODES
    security: Annotated[SecuritySettings, BeforeValidator(values.security)] = SecuritySettings()
    #: not shown in a repr: may contain passwords
    options: Annotated[_Texts, AfterValidator(values.source_options)] = Field(default_factory=dict, repr=False)

    @field_validator("topic_pattern")
    @classmethod
    def _topics_or_pattern(cls, pattern: str | None, info: ValidationInfo) -> str | None:
        topics = info.data.get("topics")
        if topics and pattern:
            raise values.fault("source.topics and source.topic_pattern are both given", "keep one of them")
        if topics == () and not pattern:
            raise values.fault("neither source.topics nor source.topic_pattern is given", "add topics: [shop.cdc]")
        return pattern

    @field_validator("options")
    @classmethod
    def _security_is_configured_once(cls, options: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        security = info.data.get("security")
        twice = [name for name in options if name.startswith(("kafka.security.", "kafka.ssl.", "kafka.sasl."))]
        if twice and isinstance(security, SecuritySettings) and security.protocol is not SecurityProtocol.PLAINTEXT:
            raise values.fault(f"{', '.join(twice)} beside source.security", "keep one of them")
        return options

    @field_validator("start")
    @classmethod
    def _start_topics_are_read(cls, start: StartAt | Offsets, info: ValidationInfo) -> StartAt | Offsets:
        topics = info.data.get("topics")
        strangers = {tp.topic for tp in start} - set(topics) if isinstance(start, Offsets) and topics else ()
        if strangers:
            problem = f"offsets for {', '.join(sorted(strangers))}, which source.topics does not name"
            raise values.fault(problem, "add the topic to source.topics or remove its offsets")
        return start

    @field_validator("order")
    @classmethod
    def _partition_order_needs_one_topic(cls, order: Order, info: ValidationInfo) -> Order:
        topics, pattern = info.data.get("topics"), info.data.get("topic_pattern")
        if order is Order.PARTITION and topics is not None and (pattern or len(topics) > 1):
            raise values.fault(
                "order: partition makes one lane for each partition of exactly one topic, several are configured",
                "name one topic in source.topics, or write order: total",
            )
        return order

    @property
    def is_by_partition(self) -> bool:
        """Whether each partition of the topic is a lane, instead of all topics together."""
        return self.order is Order.PARTITION

    def reads(self, topic: str) -> bool:
        """Whether the lane reads this topic, if there is one of this name."""
        return topic in self.topics or bool(self.topic_pattern and re.fullmatch(self.topic_pattern, topic))


class ColumnNames(_Section):
    """Which columns of a table go on, and what the target calls them."""

    #: empty: every column
    include: Annotated[tuple[str, ...], BeforeValidator(values.names)] = ()
    exclude: Annotated[tuple[str, ...], BeforeValidator(values.names)] = ()
    #: source name -> target name
    rename: Annotated[dict[str, str], AfterValidator(values.rename)] = {}

    def target(self, name: str) -> str | None:
        """What the target calls a column of the source; None: it does not go on."""
        if name in self.exclude or (self.include and name not in self.include):
            return None
        return self.rename.get(name, name)


class HistorySettings(_Section):
    """The versions of a table's rows."""

    #: target schema.table of the versions, which the lane makes
    table: Annotated[str, AfterValidator(values.target_table)]
    #: whether each change makes a version; else the last one that an epoch has of a row
    every_change: bool = False


class SoftDeleteSettings(_Section):
    """Rows that are deleted at the source stay, with the time of that."""

    #: timestamptz column of the target's table, which the source does not have
    column: Annotated[str, AfterValidator(values.name)]


class TargetSettings(_Section):
    """The Postgres database that is written."""

    #: for a URL without a password; moved into `url` by its validation
    password_from: _PasswordFrom | None = None
    url: Annotated[URL, PlainValidator(values.postgres_url), PlainSerializer(str)]
    owner_role: Annotated[str, AfterValidator(values.name)] | None = None
    #: `schema` in the file (pydantic reserves that attribute)
    db_schema: Annotated[str, AfterValidator(values.schema_name), Field(alias="schema")] = "surelane"
    tables: Annotated[dict[str, str], Field(validate_default=True)] = {"public.*": "public.*"}
    unknown_table: UnknownTable = UnknownTable.STOP
    unknown_column: UnknownColumn = UnknownColumn.STOP
    schema_evolution: SchemaEvolution = SchemaEvolution.STOP
    on_truncate: OnTruncate = OnTruncate.STOP
    #: source schema.table -> its columns; the first pattern that matches applies
    columns: Annotated[dict[str, ColumnNames], AfterValidator(values.tables)] = {}
    #: target schema.table -> columns of a unique index that identifies rows instead of the primary key
    keys: Annotated[dict[str, tuple[str, ...]], AfterValidator(values.tables)] = {}
    #: source schema.table -> table with the versions of its rows
    history: Annotated[dict[str, HistorySettings], AfterValidator(values.tables)] = {}
    #: source schema.table -> column with the time of the delete
    soft_delete: Annotated[dict[str, SoftDeleteSettings], AfterValidator(values.tables)] = {}

    _url_knows = field_validator("url")(_with_password_from)

    @field_validator("tables")
    @classmethod
    def _routes_make_sense(cls, tables: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        return values.routes(tables, info.data.get("db_schema"))

    def in_schema(self, schema: str) -> Self:
        """The same with all of its tables in one schema."""

        def moved(table: str) -> str:
            return f"{schema}.{table.partition('.')[2]}"

        tables = {source: moved(table) for source, table in self.tables.items()}
        keys = {moved(table): key for table, key in self.keys.items()}
        history = {source: one.model_copy(update={"table": moved(one.table)}) for source, one in self.history.items()}
        return self.model_copy(update={"tables": tables, "keys": keys, "history": history})


class Align(enum.StrEnum):
    """Where epochs end."""

    NONE = "none"  #: anywhere
    SOURCE_TRANSACTION = "source-transaction"  #: where a transaction of the source ends


class EpochSettings(_Section):
    """How much is applied as a whole."""

    max_messages: Annotated[int, Field(ge=1, le=MAX_EPOCH_MESSAGES)] = 100_000
    #: bytes, approximately; see `app.source.size`
    max_bytes: Annotated[int, Field(ge=1)] = 128 << 20
    trigger: Annotated[str, Field(coerce_numbers_to_str=True), AfterValidator(values.interval)] = "0 seconds"
    align: Align = Align.NONE
    #: with `align`: messages that may wait for the rest of their transaction, in a stage process' memory
    max_transaction_messages: Annotated[int, Field(ge=1, le=MAX_EPOCH_MESSAGES)] = 500_000
    #: over several topics: messages that may wait for unread ones of another topic, in a stage process' memory
    max_held_messages: Annotated[int, Field(ge=0, le=MAX_EPOCH_MESSAGES)] = 500_000

    @property
    def transaction_limit(self) -> int | None:
        """Messages that may wait for the rest of their transaction; None: epochs end anywhere."""
        return self.max_transaction_messages if self.align is Align.SOURCE_TRANSACTION else None


class StageSettings(_Section):
    """Spark's tasks that read, decode and stage the messages."""

    #: resident tasks, each takes a core of the session; None: one less than the session's cores, 1 to 4
    tasks: Annotated[int, Field(ge=1, le=MAX_STAGE_TASKS)] | None = None
    #: bytes, approximately, that may be staged ahead
    ahead_bytes: Annotated[int, Field(ge=0)] = 256 << 20


class BreakerSettings(_Section):
    """How much may go into quarantine before the lane stops instead."""

    messages: Annotated[int, Field(ge=1)] = 100
    minutes: Annotated[float, Field(gt=0, le=MAX_BREAKER_MINUTES)] = 10.0


class DeadLetterSettings(_Section):
    """A topic that copies of skipped messages go to."""

    topic: Annotated[str, AfterValidator(values.topic_name)]
    #: options of librdkafka's producer, over those of `source.options`; not shown in a repr: may contain passwords
    options: Annotated[_Texts, AfterValidator(values.producer_options)] = Field(default_factory=dict, repr=False)


class GuardSettings(_Section):
    """When a message is skipped."""

    #: False: attempts are counted in memory only, and no watchdog limits their time
    enabled: bool = True
    #: as `target.password_from`
    password_from: _PasswordFrom | None = None
    #: database of the guard's own tables; None: the target
    url: Annotated[URL, PlainValidator(values.postgres_url), PlainSerializer(str)] | None = None
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    #: lost connections to the target while this one message was in progress, which are rather the server's fault
    max_losses: Annotated[int, Field(ge=1, le=1000)] = 5
    #: timeout of one message, plus 10 ms for each further one: a longer span is a hang
    message_timeout: _SomeTime = datetime.timedelta(seconds=60)
    on_skip: OnSkip = OnSkip.CONTINUE
    #: source schema.table -> policy instead of `on_skip`; the first pattern that matches applies
    on_skip_tables: Annotated[dict[str, OnSkip], AfterValidator(values.on_skip_tables)] = {}
    #: keys whose changes wait in quarantine; they are in memory
    max_parked_keys: Annotated[int, Field(ge=1)] = 10_000
    #: None: no breaker
    breaker: BreakerSettings | None = BreakerSettings()
    #: source columns whose values no command, log or error text shows
    redact: Annotated[tuple[str, ...], BeforeValidator(values.names), AfterValidator(values.redacted)] = ()
    #: None: skipped messages are in the quarantine only
    dead_letter: DeadLetterSettings | None = None

    _url_knows = field_validator("url")(_with_password_from)


class TransformSettings(_Section):
    """The user's code between decoding and applying."""

    function: Annotated[str, AfterValidator(values.function)]


class TableSql(_Section):
    """Spark SQL over the rows of a table."""

    #: text between SELECT and FROM
    select: Annotated[str, Field(min_length=1)] = "*"
    #: text after WHERE; None: every row
    where: Annotated[str, Field(min_length=1)] | None = None


class SparkSettings(_Section):
    """The Spark session."""

    master: str = "local[*]"
    #: not shown in a repr: may contain credentials of an object store
    conf: _Texts = Field(default_factory=dict, repr=False)


class FixedDelay(_Section):
    """`strategy: fixed-delay`."""

    attempts: Annotated[int, Field(ge=0)] = 3
    delay: _Duration = datetime.timedelta(seconds=1)


class ExponentialDelay(_Section):
    """`strategy: exponential-delay`."""

    initial_backoff: _SomeTime = datetime.timedelta(seconds=1)
    max_backoff: _SomeTime = datetime.timedelta(minutes=1)
    backoff_multiplier: Annotated[float, Field(ge=1)] = 1.5
    reset_backoff_threshold: _SomeTime = datetime.timedelta(hours=1)
    jitter_factor: Annotated[float, Field(ge=0, le=1)] = 0.1
    #: restarts until the backoff is reset; None: unlimited
    attempts: Annotated[int, Field(ge=0)] | None = None

    @field_validator("max_backoff")
    @classmethod
    def _not_below_the_initial(cls, longest: datetime.timedelta, info: ValidationInfo) -> datetime.timedelta:
        first = info.data.get("initial_backoff")
        if first is not None and longest < first:
            raise values.fault("shorter than initial_backoff", "make it at least as long, or initial_backoff shorter")
        return longest


class FailureRate(_Section):
    """`strategy: failure-rate`."""

    max_failures_per_interval: Annotated[int, Field(ge=0)] = 1
    failure_rate_interval: _SomeTime = datetime.timedelta(minutes=1)
    delay: _Duration = datetime.timedelta(seconds=1)


class RestartSettings(_Section):
    """What follows the death of a worker process."""

    strategy: Strategy = Strategy.EXPONENTIAL_DELAY
    fixed_delay: FixedDelay = FixedDelay()
    exponential_delay: ExponentialDelay = ExponentialDelay()
    failure_rate: FailureRate = FailureRate()


class MetricsSettings(_Section):
    """Where /metrics, /healthz and /readyz are served."""

    #: 0 or null: not served
    port: Annotated[int, Field(ge=0, le=65535)] | None = DEFAULT_METRICS_PORT
    #: 0.0.0.0: all addresses of this machine; there is no authentication
    host: str = "127.0.0.1"


class SnapshotDriver(enum.StrEnum):
    """How snapshots of the target are made."""

    BASEBACKUP = "basebackup"  #: pg_basebackup: the whole server, with prepared transactions
    DUMP = "dump"  #: pg_dump: this database, without prepared transactions
    RDS = "rds"  #: Amazon RDS creates and stores it


class Rds(_Section):
    """The target as Amazon RDS knows it, and what a restored copy of it is to be like."""

    instance: Annotated[str, Field(min_length=1)] | None = None
    #: None: as the AWS libraries find it (AWS_REGION, ~/.aws/config)
    region: Annotated[str, Field(min_length=1)] | None = None
    #: None: a restored instance gets RDS's default group, where max_prepared_transactions is 0
    parameter_group: Annotated[str, Field(min_length=1)] | None = None
    subnet_group: Annotated[str, Field(min_length=1)] | None = None
    security_groups: Annotated[tuple[str, ...], BeforeValidator(values.names)] = ()


class SnapshotSettings(_Section):
    """Where snapshots of the target are kept, and how they are made."""

    driver: SnapshotDriver = SnapshotDriver.DUMP
    #: folder of the manifests and, except for `rds`, of the snapshots
    directory: Annotated[str, AfterValidator(values.folder)] = "./var/snapshots"
    #: as `target.password_from`
    password_from: _PasswordFrom | None = None
    #: login that makes snapshots; None: `target.url`
    url: Annotated[URL, PlainValidator(values.postgres_url), PlainSerializer(str)] | None = None
    #: folder of pg_dump and the other programs; None: PATH, then those of Debian's packages
    bin_dir: Annotated[str, AfterValidator(values.folder)] | None = None
    #: tables that are dumped and restored in parallel
    jobs: Annotated[int, Field(ge=1, le=64)] = 1
    rds: Rds = Rds()

    _url_knows = field_validator("url")(_with_password_from)


class LimitSettings(_Section):
    """How fast a lane may be."""

    #: of all lanes of the process together, over a second or more; None: as fast as they can
    messages_per_second: Annotated[int, Field(ge=1)] | None = None
    #: messages of paused tables that may be parked; beyond them the lane pauses as a whole
    parked_messages: Annotated[int, Field(ge=1)] = 10_000
    #: epochs begin only while no streaming standby of the target is further behind; None: no matter how far
    target_replica_lag: _SomeTime | None = None


class SavepointSettings(_Section):
    """Where savepoints are kept."""

    #: folder of the savepoints: a path, or a URI of S3, Google Cloud Storage or HDFS
    directory: Annotated[str, AfterValidator(values.place)] = "./var/savepoints"
    #: time between two savepoints that the lane makes by itself; None: it makes none
    every: _SomeTime | None = None
    #: how many of those are kept
    keep: Annotated[int, Field(ge=1)] = 10


class ArchiveFormat(enum.StrEnum):
    """How the archive's files are written."""

    JSONL_ZST = "jsonl.zst"  #: a line of JSON for each message, compressed with zstd


class ArchiveSettings(_Section):
    """Files that keep what was consumed beyond Kafka's retention."""

    #: folder that must exist
    path: Annotated[str, AfterValidator(values.folder)]
    format: ArchiveFormat = ArchiveFormat.JSONL_ZST
    #: compression level of zstd
    level: Annotated[int, Field(ge=1, le=19)] = 3
    #: files of epochs are combined up to this size in compressed bytes
    file_bytes: Annotated[int, Field(ge=1)] = 32 << 20
    #: ... or until the oldest of them has this age
    file_age: _SomeTime = datetime.timedelta(hours=1)
    #: files whose newest epoch is older are deleted; None: never
    keep_age: _SomeTime | None = None
    #: compressed bytes of a lane beyond which its oldest files are deleted; None: all are kept
    keep_bytes: Annotated[int, Field(ge=1)] | None = None


class Settings(BaseSettings):
    """The settings of one lane. The constructor uses its arguments only; `app.config.loader` reads the rest."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix="SURELANE_",
        env_nested_delimiter="__",
        env_parse_none_str="null",
    )

    lane: Annotated[str, AfterValidator(values.lane_name)]
    source: SourceSettings
    target: TargetSettings
    delivery: Delivery = Delivery.EXACTLY_ONCE
    #: ignored under at-least-once, so that `delivery` can be changed alone
    commit: Commit = Commit.TWO_PHASE
    #: a URL or an absolute path; default: ./var/checkpoints/<lane>
    checkpoint: Annotated[str, Field(validate_default=True)] = ""
    epoch: EpochSettings = EpochSettings()
    stage: StageSettings = StageSettings()
    guard: GuardSettings = GuardSettings()
    transform: Annotated[TransformSettings, BeforeValidator(values.transform)] | None = None
    #: source schema.table -> SQL; the first pattern that matches applies
    sql: Annotated[dict[str, TableSql], AfterValidator(values.tables)] = {}
    spark: SparkSettings = SparkSettings()
    restart: RestartSettings = RestartSettings()
    metrics: MetricsSettings = MetricsSettings()
    snapshots: SnapshotSettings = SnapshotSettings()
    savepoints: SavepointSettings = SavepointSettings()
    limits: LimitSettings = LimitSettings()
    #: None: no archive
    archive: ArchiveSettings | None = None
    #: name -> query over the lane's changes, or over other topics; each runs in a process of its own
    queries: Annotated[dict[str, QuerySettings], AfterValidator(query_names)] = {}

    #: name -> aggregates of a target table, which the target keeps in the transaction that changes its rows
    rollups: Annotated[dict[str, RollupSettings], AfterValidator(rollup_names)] = {}

    @field_validator("guard")
    @classmethod
    def _dead_letters_are_not_read(cls, guard: GuardSettings, info: ValidationInfo) -> GuardSettings:
        source, letters = info.data.get("source"), guard.dead_letter
        if letters is not None and isinstance(source, SourceSettings) and source.reads(letters.topic):
            problem = f"the lane reads guard.dead_letter.topic: {letters.topic} is one of the source's topics"
            raise values.fault(problem, "name another topic there, or make source.topic_pattern narrower")
        return guard

    @field_validator("epoch")
    @classmethod
    def _transactions_have_one_lane(cls, epoch: EpochSettings, info: ValidationInfo) -> EpochSettings:
        source = info.data.get("source")
        if epoch.align is not Align.NONE and isinstance(source, SourceSettings) and source.is_by_partition:
            raise values.fault(
                "epoch.align: source-transaction, but source.order: partition parts transactions among lanes",
                "write order: total, or align: none",
            )
        return epoch

    @field_validator("rollups")
    @classmethod
    def _one_writer_is_prepared(cls, rollups: dict[str, RollupSettings], info: ValidationInfo) -> object:
        data, source = info.data, info.data.get("source")
        prepares = data.get("delivery") is Delivery.EXACTLY_ONCE and data.get("commit") is Commit.TWO_PHASE
        if rollups and prepares and isinstance(source, SourceSettings) and source.is_by_partition:
            raise values.fault(
                "with source.order: partition and commit: two-phase the lanes of an epoch would wait for each other:"
                " what one has prepared locks the rollup",
                "write commit: ledger, or order: total",
            )
        return rollups

    @field_validator("checkpoint")
    @classmethod
    def _checkpoint_of_lane(cls, checkpoint: str, info: ValidationInfo) -> str:
        return values.location(checkpoint or f"./var/checkpoints/{info.data.get('lane', '')}")

    @property
    def mode(self) -> CommitMode:
        """The one value the committer is chosen by."""
        if self.delivery is Delivery.AT_LEAST_ONCE:
            return CommitMode.AT_LEAST_ONCE
        return CommitMode.LEDGER if self.commit is Commit.LEDGER else CommitMode.TWO_PHASE

    @property
    def goes_ahead(self) -> bool:
        """Whether messages are applied before Spark has planned an epoch with them: the target alone decides."""
        return self.begins_early and self.mode is not CommitMode.TWO_PHASE and self.archive is None

    @property
    def begins_early(self) -> bool:
        """Whether the first epoch begins before Spark's query does: there is one lane without a query, its topics are
        known (a plan lists those of a pattern anew), and neither a rate nor a pause between epochs is wanted."""
        is_one = not self.source.is_by_partition and self.source.topic_pattern is None and self.query is None
        is_free = self.limits.messages_per_second is None and not values.duration(self.epoch.trigger)
        return is_one and is_free

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments only: a Settings made in code is the same on every machine."""
        return (init_settings,)

    def lane_of(self, tp: TopicPartition) -> str:
        """The lane that has this partition."""
        return f"{self.lane}.{tp.partition}" if self.source.is_by_partition else self.lane

    @property
    def archiving_lane(self) -> str:
        """The configuration's lane, whose messages are archived: also for the settings of a query."""
        return self.lane.partition(".")[0]

    def of_query(self, name: str) -> Self:
        """The settings of a query, which is the lane `<lane>.<name>`. Raises ConfigInvalid where there is none."""
        query = self.queries.get(name)
        if query is None:
            known = ", ".join(self.queries) or "there are none"
            raise ConfigInvalid(f"there is no query {name}", hint=f"queries of the configuration: {known}")
        epoch = {"max_messages": query.max_messages, "trigger": query.trigger}
        return self.model_copy(
            update={
                "lane": f"{self.lane}.{name}",
                "checkpoint": f"{self.checkpoint.rstrip('/')}.{name}",
                "source": self._source_of(query),
                "epoch": self.epoch.model_copy(
                    update={"align": Align.NONE} | {key: value for key, value in epoch.items() if value is not None}
                ),
                "metrics": self.metrics.model_copy(update={"port": query.metrics_port}),
                "queries": {name: query},
                "rollups": {},
                "transform": None,
                "sql": {},
            }
        )

    @property
    def query(self) -> QuerySettings | None:
        """The query whose settings these are; None: they are a lane's."""
        return self.queries.get(self.lane.partition(".")[2])

    def _source_of(self, query: QuerySettings) -> SourceSettings:
        """The topics that a query reads."""
        named = [one.topic for one in query.topics.values()]
        named += [topic for changes in query.changes.values() for topic in changes.topics]
        is_whole = any(not changes.topics for changes in query.changes.values())
        pattern = self.source.topic_pattern if is_whole else None
        if is_whole:
            named += self.source.topics
        names = tuple(dict.fromkeys(named))
        if pattern is not None:
            names, pattern = (), "|".join([f"(?:{pattern})", *map(re.escape, names)])
        update = {"topics": names, "topic_pattern": pattern, "start": StartAt(query.start), "order": Order.TOTAL}
        return self.source.model_copy(update=update)

    @classmethod
    def of(cls, raw: dict[str, Any]) -> Self:
        """From nested maps, as read from a file; raises pydantic's ValidationError with every fault."""
        return cls(**raw)
