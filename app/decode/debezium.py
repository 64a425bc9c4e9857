"""Debezium JSON, with or without the Connect schema envelope, as one Spark expression.

Numbers inside a row come out as they stood in the message, with one exception that Spark imposes: a number with a
fraction or an exponent is read as a double. Debezium writes such numbers only for float4/float8 and under
`decimal.handling.mode=double`, where a double is all there is.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StringType, StructField, StructType

from app.model.rows import SEPARATOR, Kind

_ROW = MapType(StringType(), StringType())
_ROW_DDL = "map<string,string>"


def _strings(*names: str) -> list[StructField]:
    return [StructField(name, StringType()) for name in names]


_BODY = [
    *_strings("op", "status", "id", "ts_ms", "ddl", "tableChanges"),
    StructField("source", StructType(_strings("schema", "table", "ts_ms", "sequence"))),
    StructField("after", _ROW),
]
#: one parse finds a bare message and an enveloped one
_MESSAGE = StructType([*_BODY, StructField("payload", StructType(_BODY)), *_strings("_malformed")])
_BEFORE = StructType([StructField("before", _ROW)])
_BEFORE_ENVELOPED = StructType([StructField("payload", _BEFORE)])
_KEY_ENVELOPED = StructType([StructField("payload", _ROW)])

_OPERATIONS = {
    "c": Kind.UPSERT,
    "u": Kind.UPSERT,
    "r": Kind.UPSERT,
    "d": Kind.DELETE,
    "t": Kind.TRUNCATE,
    "m": Kind.FILTERED,
}
#: characters that COPY's text format gives a meaning, in the order in which they have to be escaped
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))


def _escaped(value: Column) -> Column:
    for character, escape in _ESCAPES:
        value = F.replace(value, F.lit(character), F.lit(escape))
    return F.coalesce(value, F.lit("\\N"))


def _line(row: Column) -> Column:
    """COPY text line of a map's values, in the map's own order; "" for no map."""
    fields = F.array_join(F.transform(F.map_values(row), _escaped), "\t")
    return F.coalesce(F.concat(fields, F.lit("\n")), F.lit(""))


class DebeziumJson:
    """`source.format: debezium-json`."""

    def decode(self, messages: DataFrame) -> DataFrame:
        """See `app.decode.interface.Decoder`."""
        parsed = messages.select(
            "topic",
            "partition",
            "offset",
            F.col("key").cast("string").alias("key"),
            F.col("value").cast("string").alias("value"),
            F.is_valid_utf8(F.col("value")).alias("utf8"),
            F.from_json(F.col("value").cast("string"), _MESSAGE, {"columnNameOfCorruptRecord": "_malformed"}).alias(
                "m"
            ),
        )
        found = parsed.select(
            "topic",
            "partition",
            "offset",
            "key",
            "value",
            "utf8",
            F.col("m._malformed").alias("malformed"),
            F.col("m.payload").isNotNull().alias("enveloped"),
            F.coalesce(F.col("m.payload"), F.struct(*(F.col(f"m.{field.name}") for field in _BODY))).alias("body"),
        )
        rows = found.select("*", _kind().alias("kind")).select("*", _row().alias("row"))
        return rows.select(
            "topic",
            "partition",
            "offset",
            _layout().alias("layout"),
            "key",
            _line(F.col("row")).alias("line"),
            F.col("body.source.ts_ms").cast("bigint").alias("ts_ms"),
            F.col("body.source.sequence").alias("sequence"),
        )


def _kind() -> Column:
    op = F.col("body.op")
    kind = F.when(F.col("value").isNull(), Kind.FILTERED)  # tombstone
    kind = kind.when(~F.col("utf8") | F.col("malformed").isNotNull(), Kind.MALFORMED)
    for code, meaning in _OPERATIONS.items():
        kind = kind.when(op == code, meaning)
    transaction_marker = F.col("body.status").isin("BEGIN", "END") & F.col("body.id").isNotNull()
    schema_change = F.col("body.ddl").isNotNull() | F.col("body.tableChanges").isNotNull()
    heartbeat = (
        op.isNull() & F.col("body.source").isNull() & F.col("body.ts_ms").isNotNull() & F.col("body.after").isNull()
    )
    return kind.when(op.isNull() & (transaction_marker | schema_change | heartbeat), Kind.FILTERED).otherwise(
        Kind.MALFORMED
    )


def _row() -> Column:
    """The columns that the change needs: the row after it, or the key of the row that is gone."""
    key, value, enveloped = F.col("key"), F.col("value"), F.col("enveloped")
    of_key = F.when(enveloped, F.from_json(key, _KEY_ENVELOPED)["payload"]).otherwise(F.from_json(key, _ROW_DDL))
    before = F.when(enveloped, F.from_json(value, _BEFORE_ENVELOPED)["payload"]["before"])
    before = before.otherwise(F.from_json(value, _BEFORE)["before"])
    return F.when(F.col("kind") == Kind.UPSERT, F.col("body.after")).when(
        F.col("kind") == Kind.DELETE, F.when(key.isNotNull(), of_key).otherwise(before)
    )


def _layout() -> Column:
    """See `app.model.rows.Layout`. A change without columns is malformed; a delete without any key is keyless."""
    kind, row, source = F.col("kind"), F.col("row"), F.col("body.source")
    empty = row.isNull() | (F.size(row) == 0)
    kind = F.when((kind == Kind.UPSERT) & empty, F.lit(Kind.MALFORMED))
    kind = kind.when((F.col("kind") == Kind.DELETE) & empty, F.lit(Kind.KEYLESS)).otherwise(F.col("kind"))
    schema = F.when(F.col("enveloped"), F.xxhash64(F.substring_index("value", ',"payload":', 1)).cast("string"))
    parts = [
        kind,
        F.coalesce(schema, F.lit("")),
        F.coalesce(source["schema"], F.lit("")),
        F.coalesce(source["table"], F.lit("")),
    ]
    named = F.concat_ws(SEPARATOR, *parts, F.map_keys(row))
    return F.when(
        F.col("kind").isin(Kind.FILTERED, Kind.MALFORMED), F.concat(F.col("kind"), F.lit(SEPARATOR * 3))
    ).otherwise(named)
