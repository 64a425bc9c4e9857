"""What an exception of Spark means for the lane: decided by the classes and conditions of its causes, not by its text.

A task's exception is the fault of a row unless one of its causes is known to come from the surroundings; an exception
outside of tasks is the fault of the surroundings unless it is known to be something else.
"""

import enum
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from app.errors import Diverged, JobFailed, MessagesGone, SparkFailed, SparkGone, StateUnfit, SurelaneError, Unreachable
from app.spark.causes import JvmCause, causes_of


class ErrorKind(enum.Enum):
    """What a single cause means."""

    GONE = enum.auto()  #: Kafka no longer has the offsets
    DAMAGED = enum.auto()  #: a file of the checkpoint is not what was written
    OTHER_QUERY = enum.auto()  #: a second query writes to the checkpoint
    STATE_UNFIT = enum.auto()  #: the checkpoint has the state of another query, or of an earlier one
    STATE_NOT_WHOLE = enum.auto()  #: an epoch is in the checkpoint, and a part of its state is not
    KAFKA_AWAY = enum.auto()
    SURROUNDINGS = enum.auto()  #: the machine, or the job's end: no message is to blame
    ROW = enum.auto()


OFFSETS_GONE = "org.apache.kafka.clients.consumer.OffsetOutOfRangeException"
KAFKA_STATE = ("org.apache.spark.sql.kafka010.KafkaIllegalStateException", "KAFKA_DATA_LOSS")
KAFKA_AWAY = (
    "org.apache.kafka.common.errors.RetriableException",
    "org.apache.kafka.common.errors.AuthenticationException",  # while a password changes, for example
)
#: Spark's consumer has waited too long
_NO_RECORD = ("java.util.concurrent.TimeoutException", "org.apache.spark.sql.kafka010.")
#: a ConfigException has only its text; the rest of that are names of options
_UNRESOLVED = ("org.apache.kafka.common.config.ConfigException", "No resolvable bootstrap urls")
DAMAGED = "org.apache.hadoop.fs.ChecksumException"
OTHER_QUERY = ("CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_QUERY")
STATE_UNFIT = (
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
    "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
    "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
)
STATE_NOT_WHOLE = "STATE_STORE_COMMIT_VALIDATION_FAILED"
#: in a task; memory is not among them: a large message may exhaust it
_SURROUNDINGS = (
    "java.io.IOException",
    "java.io.UncheckedIOException",
    "java.lang.LinkageError",
    "java.lang.ClassNotFoundException",  # an executor lacks a jar
    "java.lang.InterruptedException",
    "org.apache.spark.TaskKilledException",
    "org.apache.spark.shuffle.FetchFailedException",
    "org.apache.kafka.common.KafkaException",
)
#: IOExceptions that the read data cause
_OF_DATA = ("com.fasterxml.jackson.core.JacksonException", "java.nio.charset.CharacterCodingException")
#: SQLSTATE classes: operator, system, cancelled
SURROUNDINGS_STATES = ("57", "58", "HY")
#: SQLSTATE classes: data exceptions, the user's functions, errors that SQL raises
ROW_STATES = ("21", "22", "23", "38", "39", "P0")
#: throwers: a Python worker raised or died; none could be started
_PYTHON, _NO_PYTHON = "org.apache.spark.api.python.", "org.apache.spark.api.python.PythonWorkerFactory"
#: what an expression raises, with a condition, wherever Spark computes it
_OF_A_ROW = (
    "java.lang.ArithmeticException",
    "java.lang.ArrayIndexOutOfBoundsException",
    "java.lang.NumberFormatException",
    "java.time.DateTimeException",
    "org.apache.spark.SparkRuntimeException",
)
#: start of Spark's message for a job that it gave up without a cause: then the class of an exception that could not be
#: sent, or the name of what happened to the executor. No row is quoted before that
_LAST_FAILURE = re.compile(
    r"Job aborted due to stage failure: Task \d+ in stage [\d.]+ failed \d+ times, most recent failure: "
    r"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^()]*\): (?P<kind>[\w$]+(?:\.[\w$]+)+)[:\n]"
)
#: characters of Spark's message that an error repeats
_SHOWN = 2000
#: the same of a state's missing parts; behind them is advice to authors of sinks
_SHOWN_OF_STATE = 200


def meaning(error: Exception) -> SurelaneError:
    """The SurelaneError for an exception of Spark or of Py4J."""
    try:
        if isinstance(error, Py4JNetworkError | ConnectionError):
            raise error
        return _error(causes_of(error), str(error)[:_SHOWN])
    except (Py4JNetworkError, ConnectionError):
        return SparkGone(hint="if it happens again look for the kernel's out-of-memory killer")


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn what Spark raises inside into a SurelaneError."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise meaning(error) from error


def _error(causes: Sequence[JvmCause], text: str) -> SurelaneError:
    kinds = [(kind, cause) for cause in causes if (kind := _kind(cause)) is not None]
    kind, cause = kinds[0] if kinds else (ErrorKind.ROW if _is_of_a_row(causes) else None, None)
    match kind:
        case ErrorKind.GONE:
            return MessagesGone.of(text)
        case ErrorKind.DAMAGED:
            assert cause is not None, "it was found by one"
            return Diverged.checkpoint_damaged(f"a file of the checkpoint is damaged: {cause.message}", lane=None)
        case ErrorKind.OTHER_QUERY:
            # An older writer that was frozen may run again: opening anew asks the target which one is fenced.
            return SparkFailed(f"another query writes to this checkpoint: {text}")
        case ErrorKind.STATE_UNFIT:
            assert cause is not None, "it was found by one"
            return StateUnfit(
                f"the state in the checkpoint does not fit what the query computes now ({cause.condition}). Nothing "
                "was changed",
                hint="put the SQL or the function back that the state is of; or surelane state rebuild <query>, which "
                "computes the result anew",
            )
        case ErrorKind.STATE_NOT_WHOLE:
            assert cause is not None, "it was found by one"
            return Diverged(
                f"an epoch is in the checkpoint, and a part of its state is not: {cause.message[:_SHOWN_OF_STATE]}",
                hint="surelane state rebuild <query>, then surelane run --query <query>, which computes the result "
                "anew, as in ops/runbooks/query-state-lost.md. Please report it: tasks have left rows unread",
            )
        case ErrorKind.KAFKA_AWAY:
            return Unreachable(f"Kafka does not answer Spark: {text}")
        case ErrorKind.ROW:
            return JobFailed(f"Spark could not compute or decode a row: {text}")
        case _:
            return SparkFailed(f"Spark ended the query: {text}")


def _kind(cause: JvmCause) -> ErrorKind | None:
    """None for a cause that means nothing by itself."""
    name, classes = cause.classes[0], set(cause.classes)
    if OFFSETS_GONE in classes or (name == KAFKA_STATE[0] and cause.condition.startswith(KAFKA_STATE[1])):
        return ErrorKind.GONE
    if cause.condition in STATE_UNFIT:
        return ErrorKind.STATE_UNFIT
    if cause.condition == STATE_NOT_WHOLE:
        return ErrorKind.STATE_NOT_WHOLE
    if not classes.isdisjoint(KAFKA_AWAY) or _is_no_record(cause) or _is_unresolved(cause):
        return ErrorKind.KAFKA_AWAY
    return _of_a_task(cause, classes) if cause.in_task else _of_the_driver(cause, classes)


def _is_no_record(cause: JvmCause) -> bool:
    kind, where = _NO_RECORD
    return cause.classes[0] == kind and cause.thrower.startswith(where)


def _is_unresolved(cause: JvmCause) -> bool:
    kind, words = _UNRESOLVED
    return cause.classes[0] == kind and cause.message.startswith(words)


def _of_a_task(cause: JvmCause, classes: set[str]) -> ErrorKind | None:
    if cause.sqlstate.startswith(SURROUNDINGS_STATES) or cause.thrower.startswith(_NO_PYTHON):
        return ErrorKind.SURROUNDINGS
    if cause.sqlstate.startswith(ROW_STATES) or cause.thrower.startswith(_PYTHON) or not classes.isdisjoint(_OF_DATA):
        return ErrorKind.ROW
    return None if classes.isdisjoint(_SURROUNDINGS) else ErrorKind.SURROUNDINGS


def _of_the_driver(cause: JvmCause, classes: set[str]) -> ErrorKind | None:
    if DAMAGED in classes:
        return ErrorKind.DAMAGED
    if cause.condition in OTHER_QUERY:
        return ErrorKind.OTHER_QUERY
    return ErrorKind.ROW if cause.condition and not classes.isdisjoint(_OF_A_ROW) else None


def _is_of_a_row(causes: Sequence[JvmCause]) -> bool:
    """Whether a row is at fault, for causes that mean nothing by themselves."""
    unsent = _LAST_FAILURE.match(causes[-1].message) if causes and causes[-1].ended_job else None
    return any(cause.in_task for cause in causes) or (unsent is not None and unsent["kind"] not in _SURROUNDINGS)
