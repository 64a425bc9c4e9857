"""Settings of queries: the keys of `queries` in `surelane.yaml`. Names equal those of the file."""

import datetime
import enum
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationInfo
from pydantic import field_validator as validated

from app.config import values
from app.model.gid import QUERY_NAME

#: name of the view of a table's changes: this, then the table's name
CHANGES_OF = "changes_of_"
_VIEW = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_Delay = Annotated[datetime.timedelta, PlainValidator(values.duration)]


class StateBackend(enum.StrEnum):
    """Where the state of a query is while it runs."""

    ROCKSDB = "rocksdb"  #: on the local disk, with a changelog in the checkpoint
    MEMORY = "memory"  #: in the JVM's memory


class OutputMode(enum.StrEnum):
    """Which rows of the result an epoch writes: Spark's output modes."""

    UPDATE = "update"  #: those that have changed
    APPEND = "append"  #: those that will not change any more


class FileFormat(enum.StrEnum):
    """Format of files with rows of a result."""

    PARQUET = "parquet"
    JSONL_ZST = "jsonl.zst"  #: an object a line


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)


class Watermark(_Part):
    """How late a message may be."""

    #: column with the event time
    column: Annotated[str, Field(min_length=1)] = "ts"
    delay: _Delay


class ChangesSettings(_Part):
    """The changes of one source table."""

    #: topics that have its changes; empty: all that the lane reads
    topics: Annotated[tuple[str, ...], BeforeValidator(values.names)] = ()
    watermark: Watermark | None = None


class JsonTopic(_Part):
    """A topic whose messages are JSON objects."""

    topic: Annotated[str, AfterValidator(values.topic_name)]
    #: columns and their types, as in Spark's DDL
    columns: Annotated[str, Field(min_length=1)]
    watermark: Watermark | None = None


class StateSettings(_Part):
    """The state of a query."""

    backend: StateBackend = StateBackend.ROCKSDB
    #: partitions of the state, fixed by the checkpoint
    partitions: Annotated[int, Field(ge=1, le=1024)] = 2
    #: bytes that RocksDB may use in memory, for all partitions of a process together
    memory_bytes: Annotated[int, Field(ge=1 << 20)] = 256 << 20


class FilesSettings(_Part):
    """Files that the rows of a query go to."""

    #: folder that must exist, also on the hosts of the tasks
    path: Annotated[str, AfterValidator(values.folder)]
    format: FileFormat = FileFormat.PARQUET


class ResultTopicSettings(_Part):
    """A topic that the rows of a query go to."""

    topic: Annotated[str, AfterValidator(values.topic_name)]
    #: options of librdkafka's producer, over those of `source.options`; not shown in a repr: may contain passwords
    options: Annotated[dict[str, str], BeforeValidator(values.texts), AfterValidator(values.producer_options)] = Field(
        default_factory=dict, repr=False
    )


def _watermark(value: object) -> object:
    """A delay alone is one of the column `ts`."""
    return {"delay": value} if isinstance(value, str) else value


def _changes(value: object) -> object:
    """A list of tables, or a map of them."""
    if isinstance(value, list | tuple):
        return {str(table): {} for table in value}
    if isinstance(value, Mapping):
        return {str(table): _with_watermark(one) or {} for table, one in value.items()}
    return value


def _topics(value: object) -> object:
    return {name: _with_watermark(one) for name, one in value.items()} if isinstance(value, Mapping) else value


def _with_watermark(one: object) -> object:
    return {**one, "watermark": _watermark(one.get("watermark"))} if isinstance(one, Mapping) else one


class QuerySettings(_Part):
    """One query: what it reads, what it computes, where its rows go."""

    #: source schema.table -> its changes, the view `changes_of_<table>`
    changes: Annotated[dict[str, ChangesSettings], BeforeValidator(_changes), AfterValidator(values.tables)] = {}
    #: view -> topic of JSON
    topics: Annotated[dict[str, JsonTopic], BeforeValidator(_topics)] = {}
    #: Spark SQL over the views
    sql: Annotated[str, Field(min_length=1)] | None = None
    #: module:function, which gets a DataFrame for each view and returns one
    function: Annotated[str, AfterValidator(values.function)] | None = None
    #: target schema.table of the result's rows; this, files or kafka
    table: Annotated[str, AfterValidator(values.target_table)] | None = None
    files: FilesSettings | None = None
    kafka: ResultTopicSettings | None = None
    #: of a table: columns of a unique index that identifies rows, empty: the primary key; of a topic: columns of the
    #: message's key, empty: messages have none
    key: Annotated[tuple[str, ...], BeforeValidator(values.names)] = ()
    #: boolean column of the result that marks rows to delete; the table, or the message, does not have it
    deleted: Annotated[str, Field(min_length=1)] | None = None
    #: None: append for a join of streams, else update
    output: OutputMode | None = None
    #: whether it begins at the first message that Kafka has, or at those that come
    start: Annotated[str, Field(pattern="^(earliest|latest)$")] = "earliest"
    #: of an epoch; more than a lane's, since each epoch looks through the whole state for what has ended
    max_messages: Annotated[int, Field(ge=1)] = 1_000_000
    trigger: Annotated[str, Field(coerce_numbers_to_str=True), AfterValidator(values.interval)] | None = None
    state: StateSettings = StateSettings()
    #: where its metrics are served; None: not
    metrics_port: Annotated[int, Field(ge=1, le=65535)] | None = None

    @validated("function")
    @classmethod
    def _sql_or_function(cls, function: str | None, info: ValidationInfo) -> str | None:
        if "sql" in info.data and (function is None) == (info.data["sql"] is None):
            raise values.fault("a query needs sql or function, one of them", "see docs/QUERIES.md")
        return function

    @validated("kafka")
    @classmethod
    def _one_sink(cls, kafka: ResultTopicSettings | None, info: ValidationInfo) -> ResultTopicSettings | None:
        if "table" in info.data and "files" in info.data:
            sinks = [one for one in (info.data["table"], info.data["files"], kafka) if one is not None]
            if len(sinks) != 1:
                raise values.fault("a query needs table, files or kafka, one of them", "see docs/QUERIES.md, Its rows")
        return kafka

    @validated("key", "deleted")
    @classmethod
    def _files_have_no_key(cls, value: Any, info: ValidationInfo) -> Any:
        if value and info.data.get("files") is not None:
            raise values.fault(
                f"files of rows have no {info.field_name}: they keep every row", "leave it out; a marker is a column"
            )
        return value

    @validated("deleted")
    @classmethod
    def _deletes_have_a_key(cls, deleted: str | None, info: ValidationInfo) -> str | None:
        if deleted is not None and info.data.get("kafka") is not None and not info.data.get("key"):
            raise values.fault("a deleted row is a message without a value, which needs a key", "name its columns: key")
        return deleted

    @validated("topics")
    @classmethod
    def _views_have_names(cls, topics: dict[str, JsonTopic], info: ValidationInfo) -> dict[str, JsonTopic]:
        changes: dict[str, Any] = info.data.get("changes", {})
        if "changes" in info.data and not changes and not topics:
            raise values.fault("a query reads nothing", "name tables in changes, or topics")
        views = [view_of(table) for table in changes]
        for view in (*views, *topics):
            if not _VIEW.fullmatch(view):
                raise values.fault(f"{view!r} cannot name a view", "letters, digits and _, no digit first")
        twice = {view for view in (*views, *topics) if [*views, *topics].count(view) > 1}
        if twice:
            raise values.fault(f"two views are called {', '.join(sorted(twice))}", "name a topic's view otherwise")
        return topics


def view_of(table: str) -> str:
    """Name of the view of a source table's changes."""
    return CHANGES_OF + re.sub(r"\W", "_", table.partition(".")[2])


def query_names(value: dict[str, QuerySettings]) -> dict[str, QuerySettings]:
    """Names that can be part of a gid."""
    for name in value:
        if not QUERY_NAME.fullmatch(name):
            raise values.fault(f"{name!r} cannot name a query", f"it must match {QUERY_NAME.pattern}")
    return value
