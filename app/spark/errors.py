"""What an exception of Spark means for the lane."""

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    PySparkException,
    SparkRuntimeException,
)

from app.errors import Diverged, JobFailed, MessagesGone, SparkFailed, SparkGone, SurelaneError, Unreachable

#: parts of Spark's and Kafka's messages; there is no code to go by for all of them
_DATA_LOSS = ("KAFKA_DATA_LOSS", "data may have been lost", "OffsetOutOfRangeException", "PARTITION_OFFSET_CHANGED")
_OTHER_QUERY = ("CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_QUERY", "Multiple streaming queries are concurrently")
#: only files of a checkpoint are read with checksums
_DAMAGED = "ChecksumException"
_KAFKA_AWAY = (
    "TimeoutException",
    "DisconnectException",
    "Connection to node",
    "No resolvable bootstrap",
    "RetriableException",
)
#: the surroundings of a task failed, not the task: nothing is held against a message
_SURROUNDINGS = (
    "No space left on device",
    "ExecutorLostFailure",
    "FetchFailed",
    "cancelled",
    "shut down",
    "interrupted",
)
_JOB = ("Job aborted", "PYTHON_WORKER", "PythonException", "Python worker exited", "FAILED_EXECUTE_UDF", "TASK_FAILED")
#: what the user's SQL may raise for a row
_OF_A_ROW = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
#: characters of Spark's message that are repeated
_SHOWN = 2000


def meaning(error: Exception) -> SurelaneError:
    """The SurelaneError for an exception of Spark or of the bridge to its JVM."""
    text = str(error)
    if any(part in text for part in _DATA_LOSS):
        return MessagesGone.of(text[:_SHOWN])
    if _DAMAGED in text:
        line = next(line for line in text.splitlines() if _DAMAGED in line)
        return Diverged.checkpoint_damaged(f"a file of the checkpoint is damaged: {line[:_SHOWN]}", lane=None)
    if any(part in text for part in _OTHER_QUERY):
        # An older writer that was frozen may have woken up: opening again asks the target which of the two is fenced.
        return SparkFailed(f"another query writes to this checkpoint: {text[:_SHOWN]}")
    if isinstance(error, Py4JNetworkError | ConnectionError):
        return SparkGone(hint="if it happens again look for the kernel's out-of-memory killer")
    if any(part in text for part in _KAFKA_AWAY):
        return Unreachable(f"Kafka does not answer Spark: {text[:_SHOWN]}")
    if isinstance(error, _OF_A_ROW):
        return JobFailed(f"a row could not be computed: {text[:_SHOWN]}")
    if any(part in text for part in _JOB) and not any(part in text for part in _SURROUNDINGS):
        return JobFailed(f"Spark could not decode: {text[:_SHOWN]}")
    return SparkFailed(f"Spark ended the query: {text[:_SHOWN]}")


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn what Spark raises inside into a SurelaneError."""
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise meaning(error) from error
