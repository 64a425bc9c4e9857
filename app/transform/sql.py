"""SQL of the user's own for some tables: `where` says which rows go on, `select` what of them.

It is Spark's SQL over the columns of the message, each of them a text as the message has it. The target then holds
what the query over the source's table holds: a row that `where` leaves out is deleted there, should it be there.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from app.config.settings import TableSql
from app.errors import ConfigInvalid
from app.model.rows import Kind
from app.model.stand_ins import STAND_INS

_TEXT = StringType()
_ROW = MapType(_TEXT, _TEXT)
#: beside the row's columns, while SQL looks at them: all that is known of the change, and the whole row
_HELD, _WHOLE = "__surelane_held", "__surelane_row"
#: what the SQL gives
_MADE = "__surelane_made"
#: what Spark reads as a call, without brackets
_BARE_FUNCTIONS = (
    *("current_catalog", "current_database", "current_date", "current_schema", "current_time", "current_timestamp"),
    *("current_user", "localtimestamp", "session_user", "user"),
)
_EXCEPT = re.compile(r"\*\s*(except|exclude)\b", re.IGNORECASE)
_NO_TEXT = (ArrayType, BinaryType, MapType, StructType, VariantType)


@dataclass(frozen=True)
class _Rule:
    """The SQL of one pattern, and what Spark says of it."""

    schema: str
    table: str
    select: str
    where: str | None
    #: columns of the message that it names
    columns: tuple[str, ...]
    #: names of the columns that `select` gives; `*` gives _HELD and _WHOLE, and once more each column that is named
    outputs: tuple[str, ...]


class Sql:
    """Rewrites decoded rows as `sql` in the configuration says; raises ConfigInvalid for what is no SQL."""

    def __init__(self, spark: SparkSession, tables: Mapping[str, TableSql]) -> None:
        self._rules = [_rule(spark, pattern, sql) for pattern, sql in tables.items()]

    def __call__(self, rows: DataFrame) -> DataFrame:
        """`rows` have kind, op, schema, table, is_read, key, row, gone (the key of the row, in case it is
        left out), special, and whatever else; the same columns come back.

        A change without a column that the SQL names becomes one of kind UNFIT, its row the missing names.
        """
        taken = sf.lit(False)
        for rule in self._rules:
            matches = _matches(rule)
            rows = _apply(rows, rule, matches & ~taken)
            taken = taken | matches
        return rows


def _apply(rows: DataFrame, rule: _Rule, matches: Column) -> DataFrame:
    mine = matches & sf.col("kind").isin(Kind.UPSERT, Kind.DELETE)
    rows = _refuse_unfit(rows, rule, mine)
    if rule.where is not None:
        rows = _leave_out(rows, rule, mine)
    return _select(rows, rule, mine)


def _refuse_unfit(rows: DataFrame, rule: _Rule, mine: Column) -> DataFrame:
    """Deletes have the key's columns only: the others are NULL there. A large value that an update leaves out is not
    there to be computed with."""
    named = sf.array(*map(sf.lit, rule.columns)) if rule.columns else sf.array().cast(ArrayType(_TEXT))
    row, is_read = sf.col("row"), sf.coalesce(sf.col("is_read"), sf.lit(False))

    def is_missing(name: Column) -> Column:
        left_out = ~is_read & sf.coalesce(row[name].isin(*STAND_INS), sf.lit(False))
        return ~sf.map_contains_key(row, name) | left_out

    asked = mine & (sf.col("kind") == Kind.UPSERT) & _is_row()
    # a column of its own: within a lambda Spark takes `row` for the one that the same step makes
    seen = rows.withColumn("missing", sf.when(asked, sf.filter(named, is_missing)))
    missing = sf.col("missing")
    unfit = sf.coalesce(sf.size(missing) > 0, sf.lit(False))
    changed = {
        "kind": sf.when(unfit, Kind.UNFIT).otherwise(sf.col("kind")),
        "row": sf.when(unfit, sf.map_from_arrays(missing, missing)).otherwise(row),
    }
    return _with(seen, changed).drop("missing")


def _leave_out(rows: DataFrame, rule: _Rule, mine: Column) -> DataFrame:
    """What `where` does not hold for is deleted: an earlier state of the row may be there."""
    asked = mine & (sf.col("kind") == Kind.UPSERT) & _is_row()
    seen = _ask(rows, rule, asked, lambda _: sf.coalesce(sf.expr(f"({rule.where})"), sf.lit(False)))
    out = sf.col("asked") & ~sf.col(_MADE)
    nothing_there = sf.col("gone").isNull() & sf.col("op").isin("c", "r")
    garbled = ~sf.coalesce(sf.is_valid_utf8("key"), sf.lit(True))  # whatever row it would name is not the one meant
    kind = sf.when(garbled, Kind.MALFORMED).when(nothing_there, Kind.FILTERED).otherwise(Kind.DELETE)
    changed = {
        "kind": sf.when(out, kind).otherwise(sf.col("kind")),
        "row": sf.when(out, sf.col("gone")).otherwise(sf.col("row")),
    }
    return _with(seen, changed).drop(_MADE, "asked")


def _select(rows: DataFrame, rule: _Rule, mine: Column) -> DataFrame:
    made = sf.expr(f"struct({rule.select})")
    seen = _ask(rows, rule, mine & _is_row(), lambda given: made.cast(_types(rule.outputs, given)))
    row = _row(rule.outputs)
    row = sf.when(sf.col("kind") == Kind.DELETE, sf.map_filter(row, lambda _, value: value.isNotNull())).otherwise(row)
    changed = {
        "row": sf.when(sf.col("asked"), row).otherwise(sf.col("row")),
        "special": sf.col("asked") | sf.col("special"),
    }
    return _with(seen, changed).drop(_MADE, "asked")


def _types(outputs: tuple[str, ...], given: StructType) -> StructType:
    """Every column as text, under a name that is its alone."""
    types = [given[name].dataType if name in (_HELD, _WHOLE) else _TEXT for name in outputs]
    return StructType([StructField(f"c{at}", kind) for at, kind in enumerate(types)])


def _row(outputs: tuple[str, ...]) -> Column:
    """The row that `select` gives; of two columns of one name the last counts."""
    last = {name: sf.col(_MADE)[f"c{at}"] for at, name in enumerate(outputs)}
    last.pop(_HELD, None)
    rest = last.pop(_WHOLE, None)
    named = sf.map_from_arrays(sf.array(*map(sf.lit, last)), sf.array(*last.values())) if last else None
    if rest is None or named is None:
        whole = rest if named is None else named
        assert whole is not None
        return whole
    return sf.map_concat(sf.map_filter(rest, lambda name, _: ~name.isin(*last)), named)


def _ask(rows: DataFrame, rule: _Rule, asked: Column, question: Callable[[StructType], Column]) -> DataFrame:
    """The rows, with `asked` and _MADE: the answer for those that are asked. The question sees the columns that the SQL
    names; it is made for the schema that it is put to."""
    rows = rows.withColumn("asked", asked)
    columns = [sf.when(asked, sf.col("row")[name]).alias(name) for name in rule.columns]
    opened = rows.select(sf.struct(*rows.columns).alias(_HELD), sf.col("row").alias(_WHOLE), *columns)
    return opened.select(f"{_HELD}.*", sf.when(sf.col(_HELD)["asked"], question(opened.schema)).alias(_MADE))


def _with(rows: DataFrame, changed: Mapping[str, Column]) -> DataFrame:
    return rows.select(*[changed[name].alias(name) if name in changed else sf.col(name) for name in rows.columns])


def _is_row() -> Column:
    """A change without columns is malformed, or keyless: that is for others to say."""
    return sf.col("row").isNotNull() & (sf.size("row") > 0)


def _matches(rule: _Rule) -> Column:
    return _is(sf.col("schema"), rule.schema) & _is(sf.col("table"), rule.table)


def _is(column: Column, half: str) -> Column:
    if "*" not in half:
        return column == half
    escaped = half.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return column.like(escaped.replace("*", "%"))


def _rule(spark: SparkSession, pattern: str, sql: TableSql) -> _Rule:
    """Ask Spark what the SQL means, until every name in it is known as a column of the message."""
    schema, _, table = pattern.partition(".")
    text = f"{sql.select} {sql.where or ''}"
    if _EXCEPT.search(sql.select):
        raise _invalid(pattern, "`* except (...)` is not known here: name the columns, or see target.columns")
    # Spark would take them for functions of its own
    columns = [name for name in _BARE_FUNCTIONS if re.search(rf"(?<![\w.']){name}(?![\w(.'])", text)]
    while True:
        fields = [StructField(_HELD, StructType([StructField("kind", _TEXT)])), StructField(_WHOLE, _ROW)]
        rows = spark.createDataFrame([], StructType([*fields, *(StructField(name, _TEXT) for name in columns)]))
        made, kept = sf.expr(f"struct({sql.select})"), sf.expr(f"({sql.where or 'true'})")
        try:
            asked = rows.select(_WHOLE, made.alias("made"), kept.alias("kept")).schema
        except (AnalysisException, ParseException) as error:
            name = _unknown(error)
            if name is None or name in columns:
                raise _invalid(pattern, str(error).strip().splitlines()[0]) from error
            columns.append(name)
            continue
        if not isinstance(asked["kept"].dataType, BooleanType):
            raise _invalid(pattern, f"where is not true or false but of type {asked['kept'].dataType.simpleString()}")
        return _Rule(schema, table, sql.select, sql.where, tuple(columns), _outputs(pattern, asked["made"].dataType))


def _outputs(pattern: str, made: DataType) -> tuple[str, ...]:
    assert isinstance(made, StructType)
    for field in made.fields:
        if field.name not in (_HELD, _WHOLE) and isinstance(field.dataType, _NO_TEXT):
            problem = f"column {field.name} is of type {field.dataType.simpleString()}, which has no text form here"
            raise _invalid(pattern, problem)
    return tuple(made.fieldNames())


def _unknown(error: AnalysisException) -> str | None:
    """The column name that Spark asks about, if that is what it asks about."""
    name = (error.getMessageParameters() or {}).get("objectName", "")
    if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN") or "`.`" in name:
        return None
    return name.removeprefix("`").removesuffix("`").replace("``", "`")


def _invalid(pattern: str, problem: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"sql: {pattern}: {problem}",
        hint="write Spark SQL over the message's columns, which are texts, without a table's name before them: "
        "`select` as between SELECT and FROM, each computed column with a name (`... as name`), `where` as after WHERE",
    )
