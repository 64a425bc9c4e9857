"""Debezium JSON, with or without the Connect schema envelope, as one Spark expression.

Numbers inside a row come out as they stood in the message, with one exception that Spark imposes: a number with a
fraction or an exponent is read as a double. Debezium writes such numbers only for float4/float8 and under
`decimal.handling.mode=double`, where a double is all there is.

Each step is a projection of its own: what is dear (a parse, a join) is computed once, and Spark, which copies whole
rows from one projection to the next, has no more to copy than the next one needs.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from app.model.rows import MOST_TS_MS, SEPARATOR, Kind

_TEXT = StringType()
_ROW = MapType(_TEXT, _TEXT)
#: as JSON: DDL would need Spark's SQL parser, half a second of a start
_ROW_JSON = _ROW.json()


def _strings(*names: str) -> list[StructField]:
    return [StructField(name, _TEXT) for name in names]


_TS_MS = StructField("ts_ms", LongType())
_BODY = [
    *_strings("op", "status", "id", "ddl", "tableChanges"),
    _TS_MS,
    StructField("source", StructType([*_strings("schema", "table", "sequence"), _TS_MS])),
    StructField("after", _ROW),
]
#: what tells of source transactions
_IN_TRANSACTION = [
    StructField("transaction", StructType([*_strings("id"), StructField("total_order", LongType())])),
    *_strings("data_collections"),
]
_TRANSACTION = StructType([*_strings("id"), StructField("place", LongType()), *_strings("parts")])
_BEFORE = StructType([StructField("before", _ROW)])
_BEFORE_ENVELOPED = StructType([StructField("payload", _BEFORE)])
_KEY_ENVELOPED = StructType([StructField("payload", _ROW)])

#: what `op` asks for
OPERATIONS = {
    "c": Kind.UPSERT,
    "u": Kind.UPSERT,
    "r": Kind.UPSERT,
    "d": Kind.DELETE,
    "t": Kind.TRUNCATE,
    "m": Kind.FILTERED,
}
_UPSERTS = [code for code, kind in OPERATIONS.items() if kind is Kind.UPSERT]
_DELETE = "d"
_PLACE = ("topic", "partition", "offset", "key")
_KEPT = ("hash", "schema", "table", "ts_ms", "sequence", "is_read", "transaction")
#: characters that COPY's text format gives a meaning, in the order in which they have to be escaped
_ESCAPES = (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r"))
_NULL = "\\N"
#: decoded rows to decoded rows: kind, op, schema, table, is_read, key, row, gone (the row's key), special and others
Rewrite = Callable[[DataFrame], DataFrame]
#: what Java reads for bytes that are not UTF-8
_REPLACEMENT = "\ufffd"


class DebeziumJson:
    """`source.format: debezium-json`."""

    def __init__(self, rewrite: Rewrite | None = None, *, transactions: bool = False) -> None:
        """`rewrite`: of the user's own, between reading a message and writing its line. `transactions`: whether to tell
        which source transaction a message is of."""
        self._rewrite, self._transactions = rewrite, transactions

    def decode(self, messages: DataFrame) -> DataFrame:
        """See `app.decode.interface.Decoder`."""
        key, value = (sf.col(name).cast(_TEXT) for name in ("key", "value"))
        shape = _message([*_BODY, *_IN_TRANSACTION] if self._transactions else _BODY)
        message = sf.from_json(value, shape, {"columnNameOfCorruptRecord": "_malformed"})
        parsed = messages.select(*_PLACE[:3], key.alias("key"), value.alias("value"), message.alias("m"))
        of = _transaction() if self._transactions else sf.lit(None)
        more = [of.cast(_TRANSACTION).alias("transaction"), *([] if self._rewrite is None else [_gone().alias("gone")])]
        found = parsed.select(*_PLACE, "value", *_found(), *more)
        joined = found.select("*", sf.array_join(sf.map_values("row"), "", "").alias("content"))
        settled = [_kind().alias("kind"), _special().alias("special")]
        known = joined.select(*_PLACE, *_KEPT, "row", *settled, *self._more())
        if self._rewrite is not None:
            known = self._rewrite(known)
        return known.select(*_PLACE[:3], _layout().alias("layout"), "key", _line().alias("line"), *_KEPT[3:])

    def _more(self) -> list[str]:
        """Columns that only a rewrite needs."""
        return [] if self._rewrite is None else ["op", "gone"]


def _message(body: list[StructField]) -> StructType:
    """One parse finds a bare message and an enveloped one."""
    return StructType([*body, StructField("payload", StructType(body)), *_strings("_malformed")])


def _transaction() -> Column:
    """See `app.model.rows`. Postgres' id, `xid:lsn`, has the lsn of the single change."""
    is_marker = _is_transaction_marker()
    id_ = sf.when(is_marker, _body("id")).otherwise(_body("transaction.id"))
    id_ = sf.regexp_replace(id_, r"^(\d+):\d+$", "$1")
    place = sf.when(~is_marker, _body("transaction.total_order"))
    parts = sf.when(is_marker & (_body("status") == "END"), sf.coalesce(_body("data_collections"), sf.lit("[]")))
    return sf.when(id_.isNotNull(), sf.struct(id_.alias("id"), place.alias("place"), parts.alias("parts")))


def _is_transaction_marker() -> Column:
    return sf.coalesce(
        _body("op").isNull() & _body("status").isin("BEGIN", "END") & _body("id").isNotNull(), sf.lit(False)
    )


def _body(name: str) -> Column:
    """A field of the message, wherever the message has it."""
    return sf.when(_enveloped(), sf.col(f"m.payload.{name}")).otherwise(sf.col(f"m.{name}"))


def _enveloped() -> Column:
    return sf.col("m.payload").isNotNull()


def _found() -> list[Column]:
    """What a change is made of, out of the parsed message."""
    schema = sf.when(_enveloped(), sf.xxhash64(sf.substring_index("value", ',"payload":', 1)).cast(_TEXT))
    return [
        sf.col("m._malformed").isNotNull().alias("malformed"),
        _body("op").alias("op"),
        _is_remark().alias("remark"),
        sf.coalesce(schema, sf.lit("")).alias("hash"),
        sf.coalesce(_body("source.schema"), sf.lit("")).alias("schema"),
        sf.coalesce(_body("source.table"), sf.lit("")).alias("table"),
        _time(_body("source.ts_ms")).alias("ts_ms"),
        _body("source.sequence").alias("sequence"),
        (_body("op") == "r").alias("is_read"),
        _row().alias("row"),
    ]


def _time(milliseconds: Column) -> Column:
    """NULL for what is no time."""
    return sf.when(milliseconds.between(0, MOST_TS_MS), milliseconds)


def _is_remark() -> Column:
    """Whether a message without `op` is one of those that Debezium sends beside the changes."""
    schema_change = _body("ddl").isNotNull() | _body("tableChanges").isNotNull()
    heartbeat = _body("source").isNull() & _body("ts_ms").isNotNull() & _body("after").isNull()
    return _is_transaction_marker() | schema_change | heartbeat


def _row() -> Column:
    """The columns that the change needs: the row after it, or the key of the row that is gone."""
    return sf.when(_body("op").isin(_UPSERTS), _body("after")).when(_body("op") == _DELETE, _gone())


def _gone() -> Column:
    """The key of the row."""
    key, value = sf.col("key"), sf.col("value")
    of_key = sf.when(_enveloped(), sf.from_json(key, _KEY_ENVELOPED)["payload"]).otherwise(sf.from_json(key, _ROW_JSON))
    before = sf.when(_enveloped(), sf.from_json(value, _BEFORE_ENVELOPED)["payload"]["before"])
    before = before.otherwise(sf.from_json(value, _BEFORE)["before"])
    return sf.when(key.isNotNull(), of_key).otherwise(before)


def _kind() -> Column:
    op = sf.col("op")
    kind = sf.when(sf.col("value").isNull(), Kind.FILTERED)  # tombstone
    kind = kind.when(sf.col("malformed") | _is_garbled(), Kind.MALFORMED)
    bad_key = ~sf.coalesce(sf.is_valid_utf8("key"), sf.lit(True))
    kind = kind.when((op == _DELETE) & bad_key, Kind.MALFORMED)  # whatever row it would name is not the one meant
    for code, meaning in OPERATIONS.items():
        kind = kind.when(op == code, meaning)
    return kind.when(op.isNull() & sf.col("remark"), Kind.FILTERED).otherwise(Kind.MALFORMED)


def _is_garbled() -> Column:
    """Whether the message is not UTF-8. Looking at every byte is dear, and only needed where something was replaced."""
    taken = [sf.col(name).contains(_REPLACEMENT) for name in ("content", "schema", "table")]
    replaced = sf.col("content").isNull() | taken[0] | taken[1] | taken[2]
    return replaced & ~sf.is_valid_utf8("value")


def _special() -> Column:
    """Whether some value has a character that must be escaped; most rows have none."""
    found = [sf.col("content").contains(character) for character, _ in _ESCAPES]
    return found[0] | found[1] | found[2] | found[3]


def _is_named() -> Column:
    """Whether it is a change of some table."""
    return ~sf.col("kind").isin(Kind.FILTERED, Kind.MALFORMED)


def _layout() -> Column:
    """See `app.model.rows.Layout`. A change without columns is malformed; a delete without any key is keyless."""
    kind, row = sf.col("kind"), sf.col("row")
    empty = row.isNull() | (sf.size(row) == 0)
    settled = sf.when((kind == Kind.UPSERT) & empty, sf.lit(Kind.MALFORMED))
    settled = settled.when((kind == Kind.DELETE) & empty, sf.lit(Kind.KEYLESS)).otherwise(kind)
    named = sf.concat_ws(SEPARATOR, settled, "hash", "schema", "table", sf.map_keys(row))
    return sf.when(_is_named(), named).otherwise(sf.concat(kind, sf.lit(SEPARATOR * 3)))


def _line() -> Column:
    """COPY text line of the row's values, in the message's own order; "" for no row."""
    values = sf.map_values("row")
    escaped = sf.array_join(sf.transform(values, _escaped), "\t", _NULL)
    fields = sf.when(sf.col("special"), escaped).otherwise(sf.array_join(values, "\t", _NULL))
    return sf.coalesce(sf.when(_is_named(), sf.concat(fields, sf.lit("\n"))), sf.lit(""))


def _escaped(value: Column) -> Column:
    for character, escape in _ESCAPES:
        value = sf.replace(value, sf.lit(character), sf.lit(escape))
    return value
