"""Has Spark analyse the SQL: every fault of it is one of the configuration."""

import re
from collections.abc import Mapping
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import MapType, StringType, StructField, StructType

from app.config.settings import TableSql
from app.errors import ConfigInvalid
from app.transform.sql.casts import cast
from app.transform.sql.catalyst import each, node_of
from app.transform.sql.evaluating import Unknown, compiled
from app.transform.sql.patterns import UnknownPattern
from app.transform.sql.rule import Node, Output, Rule

_TEXT = StringType()
#: column that stands for the row: `*`
_WHOLE = "__surelane_row"
#: functions that Spark calls without brackets
_BARE_FUNCTIONS = (
    *("current_catalog", "current_database", "current_date", "current_schema", "current_time", "current_timestamp"),
    *("current_user", "localtimestamp", "session_user", "user"),
)
_EXCEPT = re.compile(r"\*\s*(except|exclude)\b", re.IGNORECASE)
_HINT = (
    "write Spark SQL over the message's columns, which are texts, without a table's name before them: `select` as "
    "between SELECT and FROM, each computed column with a name (`... as name`), `where` as after WHERE"
)

_OTHERWISE = 'docs/CONFIG.md, "SQL for a table", lists what is known; for everything else there is `transform`'


def rules_of(spark: SparkSession, tables: Mapping[str, TableSql]) -> tuple[Rule, ...]:
    """Raises ConfigInvalid for what is no SQL, and for what is not known to give the same result without Spark."""
    return tuple(_rule(spark, pattern, sql) for pattern, sql in tables.items())


def _rule(spark: SparkSession, pattern: str, sql: TableSql) -> Rule:
    if _EXCEPT.search(sql.select):
        raise _invalid(pattern, "`* except (...)` is not known here: name the columns, or see target.columns")
    analysed, columns = _analysed(spark, pattern, sql)
    frame: Any = analysed
    plan = frame._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "Project" or plan.child().children().length():
        raise _invalid(pattern, "windows, aggregates and whatever makes other rows are not known here", _OTHERWISE)
    _, made, kept = (one.child() if one.children().length() else one for one in each(plan.projectList()))
    schema, _, table = pattern.partition(".")
    outputs = _outputs(pattern, made, columns)
    has_rest = _WHOLE in outputs
    where = None if sql.where is None else _node(pattern, "where", kept, columns)
    if where is not None and where.type != "boolean":
        raise _invalid(pattern, f"where is not true or false but of type {where.type}")
    texts = tuple(Output(name, _as_text(pattern, name, value)) for name, value in outputs.items() if value is not None)
    return Rule(schema, table, tuple(columns), has_rest, texts, where)


def _analysed(spark: SparkSession, pattern: str, sql: TableSql) -> tuple[DataFrame, list[str]]:
    """Have Spark analyse the SQL, until every name in it is known as a column of the message."""
    text = f"{sql.select} {sql.where or ''}"
    # Spark would take them for its functions
    columns = [name for name in _BARE_FUNCTIONS if re.search(rf"(?<![\w.']){name}(?![\w(.'])", text)]
    while True:
        fields = [StructField(_WHOLE, MapType(_TEXT, _TEXT)), *(StructField(name, _TEXT) for name in columns)]
        rows = spark.createDataFrame([], StructType(fields))
        made, kept = sf.expr(f"struct({sql.select})"), sf.expr(f"({sql.where or 'true'})")
        try:
            analysed = rows.select(_WHOLE, made.alias("made"), kept.alias("kept"))
            analysed.schema  # noqa: B018  # this analyses it
        except (AnalysisException, ParseException) as error:
            name = _unknown(error)
            if name is None or name in columns:
                raise _invalid(pattern, str(error).strip().splitlines()[0]) from error
            columns.append(name)
        else:
            return analysed, columns


def _outputs(pattern: str, made: Any, columns: list[str]) -> dict[str, Node | None]:
    """Columns that `select` returns, None for the row. Of two columns of one name the last counts."""
    found: dict[str, Node | None] = {}
    parts = list(each(made.children()))
    for name, value in zip(parts[::2], parts[1::2], strict=True):
        called = name.value().toString()
        found[called] = None if called == _WHOLE else _node(pattern, called, value, columns)
    return found


def _node(pattern: str, what: str, expression: Any, columns: list[str]) -> Node:
    try:
        node = node_of(expression)
        compiled(node, {name: at for at, name in enumerate(columns)})
    except (Unknown, UnknownPattern) as error:
        raise _invalid(pattern, f"{what}: {error}", _OTHERWISE) from error
    return node


def _as_text(pattern: str, name: str, node: Node) -> Node:
    if node.type == "string":
        return node
    if node.type == "binary" or cast(node.type, "string") is None:
        raise _invalid(pattern, f"column {name} is of type {node.type}, which has no text form here")
    return Node("Cast", "string", (node,), "ANSI")


def _unknown(error: AnalysisException) -> str | None:
    """The column name that Spark does not know, if that is the error."""
    name = (error.getMessageParameters() or {}).get("objectName", "")
    if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN") or "`.`" in name:
        return None
    return name.removeprefix("`").removesuffix("`").replace("``", "`")


def _invalid(pattern: str, problem: str, hint: str = _HINT) -> ConfigInvalid:
    return ConfigInvalid(f"sql: {pattern}: {problem}", hint=hint)
