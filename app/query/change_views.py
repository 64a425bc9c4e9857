"""Views that queries read: the typed changes of a table, and topics of JSON objects.

    changes_of_<table>   op, ts, before, after, topic, partition, offset
    a topic of JSON      its columns, then topic, partition, offset, timestamp

`messages` is a frame of Spark's Kafka source, streaming or not.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from app.config.queries import Watermark
from app.query.column_types import TypedColumn

#: Debezium's operations that a view has: create, update, delete, read by a snapshot, truncate
OPERATIONS = ("c", "u", "d", "r", "t")
_TEXT = StringType()
_FAIL = {"mode": "FAILFAST"}
_MINE = "surelane_is_mine"
_PLACE = ("topic", "partition", "offset")


def changes(messages: DataFrame, table: str, columns: Sequence[TypedColumn], watermark: Watermark | None) -> DataFrame:
    """The changes of a source table. A message that is no JSON fails; one that is no change of it is left out."""
    row = StructType([StructField(one.field, _TEXT) for one in columns])
    origin = StructType([StructField(name, _TEXT) for name in ("schema", "table", "ts_ms")])
    fields = [StructField("op", _TEXT), StructField("source", origin)]
    change = StructType([*fields, StructField("before", row), StructField("after", row)])
    envelope = StructType([StructField("payload", change), *change.fields])
    parsed = messages.select(*_PLACE, sf.from_json(sf.col("value").cast("string"), envelope, _FAIL).alias("m"))
    # with schemas in the messages the change is in `payload`
    at = {name: sf.coalesce(f"m.payload.{name}", f"m.{name}").alias(name) for name in change.names}
    schema, _, name = table.partition(".")
    is_mine = (
        sf.col("op").isin(*OPERATIONS) & (sf.col("source.schema") == schema) & (sf.col("source.table") == name)
    ).alias(_MINE)
    # values of other tables are not cast, in whatever order Spark computes filters and casts
    mine = parsed.select(*_PLACE, *at.values()).select("*", is_mine).where(_MINE)
    return _with_watermark(
        mine.select(
            "op",
            sf.timestamp_millis(sf.col("source.ts_ms").cast("bigint")).alias("ts"),
            _typed("before", columns),
            _typed("after", columns),
            *_PLACE,
        ),
        watermark,
    )


def json_rows(messages: DataFrame, columns: str, watermark: Watermark | None) -> DataFrame:
    """The objects of a topic. A message without a value is left out."""
    parsed = messages.where("value is not null").select(
        sf.from_json(sf.col("value").cast("string"), columns, _FAIL).alias("m"), *_PLACE, "timestamp"
    )
    return _with_watermark(parsed.select("m.*", *_PLACE, "timestamp"), watermark)


def _typed(side: str, columns: Sequence[TypedColumn]) -> "sf.Column":
    parts = [f"{one.sql.format(c=f'{side}.{_quoted(one.field)}')} as {_quoted(one.name)}" for one in columns]
    return sf.expr(f"if({_MINE} and {side} is not null, struct({', '.join(parts)}), null)").alias(side)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _with_watermark(rows: DataFrame, watermark: Watermark | None) -> DataFrame:
    if watermark is None:
        return rows
    return rows.withWatermark(watermark.column, f"{int(watermark.delay.total_seconds() * 1000)} milliseconds")
