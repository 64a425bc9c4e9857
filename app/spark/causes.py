"""An exception of Spark's JVM as the chain of its causes: the classes of each, and where it was thrown.

A message may repeat what is in a row, so it decides nothing. Classes, conditions and stacks repeat no row.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext

#: links of a chain that are read; the longest chain seen in Spark has five
_LONGEST = 20
#: the stack frame below which every task runs
_TASK = "org.apache.spark.executor.Executor$TaskRunner"
_SCHEDULER = "org.apache.spark.scheduler.DAGScheduler"


@dataclass(frozen=True, kw_only=True)
class JvmCause:
    """One exception of the chain."""

    #: its Java class first, then the classes it extends
    classes: tuple[str, ...]
    #: Spark's error condition, "" without one
    condition: str
    sqlstate: str
    #: Java classes of the stack, the thrower first; exceptions of Kafka's client have none
    stack: tuple[str, ...]
    #: whether a task failed with it
    in_task: bool
    message: str

    @property
    def thrower(self) -> str:
        return self.stack[0] if self.stack else ""

    @property
    def ended_job(self) -> bool:
        """Whether the scheduler made it for a job that it gave up; the exception of the task to blame, if any, is its
        cause."""
        return self.thrower == _SCHEDULER


def causes_of(error: BaseException) -> list[JvmCause]:
    """The chain of what PySpark or Py4J raised, outermost first; empty where no exception of Java is behind it.

    It calls the JVM: raises Py4JNetworkError or ConnectionError when that is gone.
    """
    found: list[JvmCause] = []
    for exception in _chain(_java(error)):
        before = found[-1] if found else None
        found.append(_cause(exception, below_task=before is not None and (before.in_task or before.ended_job)))
    return found


def _java(error: BaseException | None) -> Any:
    """The Java object. PySpark drops that of a class it does not know, and keeps that of its cause."""
    while error is not None:
        java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
        if java is not None:
            return java
        error = getattr(error, "_cause", None)
    return None


def _chain(exception: Any) -> Iterator[Any]:
    for _ in range(_LONGEST):
        if exception is None:
            return
        yield exception
        exception = exception.getCause()


def _cause(exception: Any, *, below_task: bool) -> JvmCause:
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    has_condition = is_instance_of(gateway, exception, "org.apache.spark.SparkThrowable")
    stack = tuple(str(frame.getClassName()) for frame in exception.getStackTrace())
    return JvmCause(
        classes=tuple(_classes(exception.getClass())),
        condition=(exception.getCondition() or "") if has_condition else "",
        sqlstate=(exception.getSqlState() or "") if has_condition else "",
        stack=stack,
        in_task=below_task or _TASK in stack,
        message=exception.getMessage() or "",
    )


def _classes(kind: Any) -> Iterator[str]:
    while kind is not None:
        yield str(kind.getName())
        kind = kind.getSuperclass()
