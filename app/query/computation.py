"""The result of a query as a DataFrame: the views of its sources, then the user's SQL or function."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, MapType, StructType

from app.config.queries import OutputMode, QuerySettings, StateBackend, view_of
from app.errors import ConfigInvalid
from app.model.offsets import Position
from app.query.change_views import changes, json_rows
from app.query.column_types import TypedColumn

#: reads topics of Kafka; empty: all of the query's; the rows have Spark's columns of that source
Read = Callable[[Sequence[str]], DataFrame]
#: nodes of a plan that compute each row by itself
_ROW_BY_ROW = frozenset(
    {
        *("Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark", "Generate", "Expand", "Union"),
        *("StreamingRelationV2", "DataSourceV2Relation", "LocalRelation", "OneRowRelation", "Repartition"),
        *("MapInPandas", "MapInArrow", "ArrowEvalPython", "BatchEvalPython", "UnresolvedHint", "ResolvedHint"),
        *("RepartitionByExpression", "WithCTE", "CTERelationDef", "CTERelationRef"),
    }
)
#: nodes with a state, whose values have their schema with them or not
_WITH_SCHEMAS = frozenset({"TransformWithState", "TransformWithStateInPySpark"})
_WITHOUT = frozenset(
    {
        *("Aggregate", "Join", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit"),
        *("FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState"),
    }
)
_JOIN, _STREAM = "Join", "StreamingRelationV2"


@dataclass(frozen=True)
class Computation:
    """A query, independent of where its messages are read."""

    name: str
    config: QuerySettings
    #: columns of each table's view, by the table
    columns: Mapping[str, Sequence[TypedColumn]]
    #: condemned messages
    left_out: Sequence[Position] = field(default=())

    def views(self, read: Read) -> dict[str, DataFrame]:
        """The views by name, in the order of the configuration."""
        config = self.config
        found = {
            view_of(table): changes(self._messages(read, one.topics), table, self.columns[table], one.watermark)
            for table, one in config.changes.items()
        }
        for name, topic in config.topics.items():
            found[name] = json_rows(self._messages(read, (topic.topic,)), topic.columns, topic.watermark)
        return found

    def result(self, spark: SparkSession, read: Read) -> DataFrame:
        """The rows. Raises ConfigInvalid for what Spark does not understand, and for columns without a type in
        Postgres."""
        try:
            views = self.views(read)
            rows = self._computed(spark, views)
            rows.schema  # noqa: B018  # this analyses it
        except (AnalysisException, ParseException) as error:
            raise self.invalid(first_line(error)) from error
        except PySparkException:
            raise
        except Exception as error:
            raise self.invalid(f"{self.config.function} raised {type(error).__name__}: {error}") from error
        for one in rows.schema.fields:
            if isinstance(one.dataType, ArrayType | MapType | StructType):
                kind = one.dataType.simpleString()[:80]
                raise self.invalid(f"column {one.name} is of type {kind}", "name its parts: window.start as minute")
        if self.config.state.backend is StateBackend.MEMORY and nodes(rows) & _WITH_SCHEMAS:
            raise self.invalid("transformWithState keeps its state in RocksDB only", "state.backend: rocksdb")
        return rows

    def invalid(self, problem: str, hint: str = "see docs/QUERIES.md") -> ConfigInvalid:
        return ConfigInvalid(f"queries: {self.name}: {problem}", hint=hint)

    def output(self, rows: DataFrame) -> OutputMode:
        """The output mode that is configured, or the one that Spark has for this plan."""
        if self.config.output is not None:
            return self.config.output
        return OutputMode.APPEND if _JOIN in nodes(rows) else OutputMode.UPDATE

    def _messages(self, read: Read, topics: Sequence[str]) -> DataFrame:
        rows = read(topics)
        for topic, partition, offset in self.left_out:
            # not filtered: Spark may decode a value before it looks at a filter
            is_left_out = f"topic = '{topic}' and partition = {partition} and offset = {offset}"
            rows = rows.withColumn("value", sf.expr(f"if({is_left_out}, null, value)"))
        return rows

    def _computed(self, spark: SparkSession, views: Mapping[str, DataFrame]) -> DataFrame:
        if self.config.sql is not None:
            for name, view in views.items():
                view.createOrReplaceTempView(name)
            return spark.sql(self.config.sql)
        assert self.config.function is not None, "validated"
        rows = self._function(self.config.function)(*views.values())
        if not isinstance(rows, DataFrame):
            raise self.invalid(f"{self.config.function} returned {type(rows).__name__}", "return a DataFrame of Spark")
        return rows

    def _function(self, name: str) -> Callable[..., Any]:
        module, _, attribute = name.partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise self.invalid(
                f"{name} cannot be loaded: {error}", "see that it can be imported: PYTHONPATH=/where/it/is surelane run"
            ) from error


def first_line(error: PySparkException) -> str:
    """Of what Spark says; the plan follows."""
    return str(error).strip().splitlines()[0]


def is_row_by_row(rows: DataFrame) -> bool:
    """Whether each row of the result depends on one message only: the query has no state."""
    return nodes(rows) <= _ROW_BY_ROW


def state_encoding(rows: DataFrame) -> str:
    """How its state is written, see `app.spark.state_options`: with schemas, so that values may get columns, where only
    `transformWithState` has one. Spark writes that of other operators without."""
    return "avro" if nodes(rows) & _WITH_SCHEMAS and not nodes(rows) & _WITHOUT else "unsaferow"


def nodes(rows: DataFrame) -> set[str]:
    """Class names of the analysed plan's nodes."""
    return {str(node.getClass().getSimpleName()) for node in _each_node(rows)}


def streams_of(rows: DataFrame) -> list[list[str]]:
    """The topics of each stream that Spark reads, empty for all: it reads a topic once for each view of it."""
    found: list[Any] = []
    for node in _each_node(rows):
        if node.getClass().getSimpleName() == _STREAM and not any(node.equals(other) for other in found):
            found.append(node)
    topics = [node.extraOptions().get("subscribe") for node in found]
    return [one.split(",") if one else [] for one in topics]


def _each_node(rows: DataFrame) -> Iterator[Any]:
    frame: Any = rows
    pending = [frame._jdf.queryExecution().analyzed()]
    while pending:
        node = pending.pop()
        yield node
        children = node.children()
        pending += [children.apply(at) for at in range(children.length())]
