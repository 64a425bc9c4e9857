"""Debezium JSON, with or without the Connect schema envelope, as one Spark expression.

Numbers inside a row come out as they stood in the message, with one exception that Spark imposes: a number with a
fraction or an exponent is read as a double. Debezium writes such numbers only for float4/float8 and under
`decimal.handling.mode=double`, where a double is all there is.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
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
        value = sf.replace(value, sf.lit(character), sf.lit(escape))
    return sf.coalesce(value, sf.lit("\\N"))


def _line(row: Column) -> Column:
    """COPY text line of a map's values, in the map's own order; "" for no map."""
    fields = sf.array_join(sf.transform(sf.map_values(row), _escaped), "\t")
    return sf.coalesce(sf.concat(fields, sf.lit("\n")), sf.lit(""))


class DebeziumJson:
    """`source.format: debezium-json`."""

    def decode(self, messages: DataFrame) -> DataFrame:
        """See `app.decode.interface.Decoder`."""
        parsed = messages.select(
            "topic",
            "partition",
            "offset",
            sf.col("key").cast("string").alias("key"),
            sf.col("value").cast("string").alias("value"),
            sf.is_valid_utf8(sf.col("value")).alias("utf8"),
            sf.from_json(sf.col("value").cast("string"), _MESSAGE, {"columnNameOfCorruptRecord": "_malformed"}).alias(
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
            sf.col("m._malformed").alias("malformed"),
            sf.col("m.payload").isNotNull().alias("enveloped"),
            sf.coalesce(sf.col("m.payload"), sf.struct(*(sf.col(f"m.{field.name}") for field in _BODY))).alias("body"),
        )
        rows = found.select("*", _kind().alias("kind")).select("*", _row().alias("row"))
        return rows.select(
            "topic",
            "partition",
            "offset",
            _layout().alias("layout"),
            "key",
            _line(sf.col("row")).alias("line"),
            sf.col("body.source.ts_ms").cast("bigint").alias("ts_ms"),
            sf.col("body.source.sequence").alias("sequence"),
        )


def _kind() -> Column:
    op = sf.col("body.op")
    kind = sf.when(sf.col("value").isNull(), Kind.FILTERED)  # tombstone
    kind = kind.when(~sf.col("utf8") | sf.col("malformed").isNotNull(), Kind.MALFORMED)
    bad_key = ~sf.coalesce(sf.is_valid_utf8(sf.col("key")), sf.lit(True))
    kind = kind.when((op == "d") & bad_key, Kind.MALFORMED)  # whatever row it would name is not the one meant
    for code, meaning in _OPERATIONS.items():
        kind = kind.when(op == code, meaning)
    transaction_marker = sf.col("body.status").isin("BEGIN", "END") & sf.col("body.id").isNotNull()
    schema_change = sf.col("body.ddl").isNotNull() | sf.col("body.tableChanges").isNotNull()
    heartbeat = (
        op.isNull() & sf.col("body.source").isNull() & sf.col("body.ts_ms").isNotNull() & sf.col("body.after").isNull()
    )
    return kind.when(op.isNull() & (transaction_marker | schema_change | heartbeat), Kind.FILTERED).otherwise(
        Kind.MALFORMED
    )


def _row() -> Column:
    """The columns that the change needs: the row after it, or the key of the row that is gone."""
    key, value, enveloped = sf.col("key"), sf.col("value"), sf.col("enveloped")
    of_key = sf.when(enveloped, sf.from_json(key, _KEY_ENVELOPED)["payload"]).otherwise(sf.from_json(key, _ROW_DDL))
    before = sf.when(enveloped, sf.from_json(value, _BEFORE_ENVELOPED)["payload"]["before"])
    before = before.otherwise(sf.from_json(value, _BEFORE)["before"])
    return sf.when(sf.col("kind") == Kind.UPSERT, sf.col("body.after")).when(
        sf.col("kind") == Kind.DELETE, sf.when(key.isNotNull(), of_key).otherwise(before)
    )


def _layout() -> Column:
    """See `app.model.rows.Layout`. A change without columns is malformed; a delete without any key is keyless."""
    kind, row, source = sf.col("kind"), sf.col("row"), sf.col("body.source")
    empty = row.isNull() | (sf.size(row) == 0)
    kind = sf.when((kind == Kind.UPSERT) & empty, sf.lit(Kind.MALFORMED))
    kind = kind.when((sf.col("kind") == Kind.DELETE) & empty, sf.lit(Kind.KEYLESS)).otherwise(sf.col("kind"))
    schema = sf.when(sf.col("enveloped"), sf.xxhash64(sf.substring_index("value", ',"payload":', 1)).cast("string"))
    parts = [
        kind,
        sf.coalesce(schema, sf.lit("")),
        sf.coalesce(source["schema"], sf.lit("")),
        sf.coalesce(source["table"], sf.lit("")),
    ]
    named = sf.concat_ws(SEPARATOR, *parts, sf.map_keys(row))
    return sf.when(
        sf.col("kind").isin(Kind.FILTERED, Kind.MALFORMED), sf.concat(sf.col("kind"), sf.lit(SEPARATOR * 3))
    ).otherwise(named)
