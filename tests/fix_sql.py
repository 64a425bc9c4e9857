"""An expression over two columns, row by row: as Spark evaluates it, and as the lane does."""

from collections.abc import Callable, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from app.config.settings import TableSql
from app.transform.sql.analysis import rules_of
from app.transform.sql.evaluating import compiled
from app.transform.sql.row_failure import SqlFailure

#: what a row gives that the SQL fails for
FAILS = "fails"
Values = Sequence[str | None]
Evaluate = Callable[[Values], str | None]
COLUMNS = ("a", "b")
#: and all of an expression in one step
_HOW = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.alwaysInlineCommonExpr": "true"}


def by_spark(spark: SparkSession, expression: str) -> Evaluate:
    """Out of its optimizer, without compiling it: py4j mixes up classes that Spark compiles under one name."""
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    rows = spark.createDataFrame(spark.sparkContext.emptyRDD(), "a string, b string")
    for name, value in _HOW.items():
        spark.conf.set(name, value)
    try:
        asked: Any = rows.select(sf.expr(expression).cast("string"))
        plan = asked._jdf.queryExecution().optimizedPlan()
        catalyst = jvm.org.apache.spark.sql.catalyst
        project = catalyst.expressions.UnsafeProjection.create(plan.projectList(), plan.child().output())
    finally:
        for name in _HOW:
            spark.conf.unset(name)
    place = {name: at for at, name in enumerate(_names(plan.child().output()))}
    text = jvm.org.apache.spark.unsafe.types.UTF8String

    def evaluate(values: Values) -> str | None:
        given = jvm.java.util.ArrayList()
        for _ in place:
            given.add(None)
        for name, value in zip(COLUMNS, values, strict=True):
            if name in place and value is not None:
                given.set(place[name], text.fromString(value))
        row = catalyst.expressions.GenericInternalRow(given.toArray())
        try:
            made = project.apply(row)
        except PySparkException:
            return FAILS
        except Py4JJavaError as error:
            if error.java_exception.getClass().getSimpleName() == "IllegalArgumentException":
                raise  # it is the call that is wrong
            return FAILS
        return None if made.isNullAt(0) else made.getUTF8String(0).toString()

    return evaluate


def by_the_lane(spark: SparkSession, expression: str) -> Evaluate:
    """As a stage process does."""
    (rule,) = rules_of(spark, {"public.t": TableSql(select=f"{expression} as made")})
    evaluate = compiled(rule.outputs[0].value, {name: at for at, name in enumerate(COLUMNS)})

    def checked(values: Values) -> str | None:
        try:
            return evaluate(values)
        except SqlFailure:
            return FAILS

    return checked


def _names(attributes: Any) -> list[str]:
    return [attributes.apply(at).name() for at in range(attributes.length())]
