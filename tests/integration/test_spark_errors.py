"""What Spark raises, for what it really meets: the words of a row decide nothing, classes and conditions do."""

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from app.errors import Diverged, JobFailed, MessagesGone, SparkFailed, SparkGone, SurelaneError, Unreachable, Verdict
from app.spark.job_errors import meaning, spark_errors
from tests.fix_topic import Topic
from tests.messages import Message
from tests.waiting import eventually
from tools.devstack import Kafka

#: what messages of Spark, Hadoop and Kafka's client have in them when a server, a disk or an executor fails
HOSTILE = (
    *("KAFKA_DATA_LOSS", "data may have been lost", "OffsetOutOfRangeException", "PARTITION_OFFSET_CHANGED"),
    *("CONCURRENT_STREAM_LOG_UPDATE", "CONCURRENT_QUERY", "Multiple streaming queries are concurrently"),
    *("ChecksumException", "TimeoutException", "DisconnectException", "Connection to node", "No resolvable bootstrap"),
    *("RetriableException", "No space left on device", "ExecutorLostFailure", "FetchFailed", "cancelled", "shut down"),
    *("interrupted", "org.apache.hadoop.fs.ChecksumException", "No resolvable bootstrap urls given"),
)
ALL = "\n".join(HOSTILE)
#: SQL, each fails for the row in another way: with a condition of Spark's, without one, in a library
SELECTS = {
    "cast": "cast(v as int) as v",
    "raise_error": "raise_error(v) as v",
    "assert_true": "assert_true(v = '', v) as v",
    "arithmetic": "length(v) / cast('0' as int) as v",
    "a pattern": "regexp_replace(v, concat(v, '('), '') as v",
    "JSON": "cast(from_json(v, 'a int', map('mode', 'FAILFAST')).a as string) as v",
    "a variant": "cast(parse_json(v) as string) as v",
    "a library of Java": "java_method('java.lang.Integer', 'parseInt', v) as v",
    "a format": "format_string('%d', v) as v",
    "a function that is not what it was": "date_format(now(), concat(v, 'YYYY')) as v",
}
ROWS_OF_A_MESSAGE = 10
SHORT = {
    "kafka.request.timeout.ms": "1500",
    "kafka.default.api.timeout.ms": "2000",
    "kafka.session.timeout.ms": "1200",
    "kafka.heartbeat.interval.ms": "400",
    "fetchOffset.numRetries": "1",
    "failOnDataLoss": "true",
}


def judged(work: Callable[[], object]) -> SurelaneError:
    """What the lane makes of what the work ends with."""
    with pytest.raises(SurelaneError) as raised, spark_errors():
        work()
    return raised.value


@pytest.mark.costly(1)
@pytest.mark.parametrize("select", ["cast", "raise_error"])
def test_no_words_of_a_row_are_a_verdict(spark: SparkSession, select: str) -> None:
    found: dict[str, tuple[type[SurelaneError], Verdict]] = {}
    for text in HOSTILE:
        error = judged(spark.createDataFrame([(text,)], "v string").selectExpr(SELECTS[select]).toArrow)
        found[text] = (type(error), error.verdict)
    assert found == dict.fromkeys(HOSTILE, (JobFailed, Verdict.POISON))


@pytest.mark.parametrize("select", SELECTS.values(), ids=SELECTS)
def test_whatever_fails_for_a_row_is_the_rows_fault(spark: SparkSession, select: str) -> None:
    assert type(judged(one_row(spark).selectExpr(select).toArrow)) is JobFailed


def one_row(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(ALL,)], "v string")


def _raises(rows: Iterable[Any]) -> Iterator[Any]:
    for row in rows:
        raise RuntimeError(row.v)
    yield from ()


def _dies(rows: Iterable[Any]) -> Iterator[Any]:
    for _ in rows:
        os._exit(1)
    yield from ()


def _dies_late(rows: Iterable[Any]) -> Iterator[Any]:
    """With so much unread that the connection is reset."""
    for row in rows:
        yield row
        os._exit(1)


@pytest.mark.parametrize("function", [_raises, _dies])
def test_a_python_worker_that_raises_or_dies_is_the_rows_fault(spark: SparkSession, function: Any) -> None:
    assert type(judged(lambda: one_row(spark).rdd.mapPartitions(function).collect())) is JobFailed


def test_a_python_worker_that_dies_with_its_connection(spark: SparkSession) -> None:
    rows = spark.range(0, 1_000_000, 1, 1).selectExpr("repeat('x', 100) as v")
    assert type(judged(lambda: rows.rdd.mapPartitions(_dies_late).collect())) is JobFailed


def test_a_python_that_cannot_be_started_is_not(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    assert type(judged(lambda: one_row(spark).rdd.mapPartitions(_raises).collect())) is SparkFailed


def test_a_class_that_a_task_does_not_find_is_no_rows_fault(spark: SparkSession) -> None:
    """As on an executor without a jar."""
    looked_for = one_row(spark).selectExpr("java_method('java.lang.Class', 'forName', concat('none.', 'Such')) as v")
    assert type(judged(looked_for.toArrow)) is SparkFailed


def test_a_job_that_is_cancelled(spark: SparkSession) -> None:
    over = threading.Event()

    def cancel() -> None:
        while not over.wait(0.05):
            spark.sparkContext.cancelAllJobs()

    working = threading.Thread(target=cancel)
    working.start()
    endless = spark.range(0, 10**12, 1, 2).selectExpr("sum(id % 7)")
    try:
        assert type(judged(endless.toArrow)) is SparkFailed
    finally:
        over.set()
        working.join()


def query(spark: SparkSession, checkpoint: Path, each: Callable[[DataFrame, int], None]) -> StreamingQuery:
    ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_OF_A_MESSAGE).load()
    writer = ticks.writeStream.foreachBatch(each).option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="10 milliseconds").start()


def ended(query: StreamingQuery) -> None:
    assert query.awaitTermination(60) is not None, "it goes on"


def test_another_query_on_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    """Its entry is there first."""

    def other(_: DataFrame, number: int) -> None:
        (tmp_path / "commits" / str(number)).write_text("v1\n{}")

    error = judged(lambda: ended(query(spark, tmp_path, other)))
    assert type(error) is SparkFailed
    assert error.message.startswith("another query writes to this checkpoint")


def test_a_damaged_file_of_the_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    running = query(spark, tmp_path, lambda *_: None)
    eventually(lambda: (tmp_path / "commits" / "1").exists(), why="two epochs")
    running.stop()
    newest = max((file for file in (tmp_path / "offsets").iterdir() if file.name.isdigit()), key=lambda f: int(f.name))
    newest.write_text("v1\n{}\n{}\n")
    error = judged(lambda: ended(query(spark, tmp_path, lambda *_: None)))
    assert type(error) is Diverged
    assert f"damaged: Checksum error: file:{newest}" in error.message


def test_a_checkpoint_that_cannot_be_written(spark: SparkSession, tmp_path: Path) -> None:
    def spoil(_: DataFrame, number: int) -> None:
        if number == 1:
            shutil.rmtree(tmp_path / "commits")
            (tmp_path / "commits").write_text("not a folder")

    assert type(judged(lambda: ended(query(spark, tmp_path, spoil)))) is SparkFailed


def read(spark: SparkSession, topic: Topic, end: int, **more: str) -> DataFrame:
    options = {
        **SHORT,
        "kafka.bootstrap.servers": topic.kafka.bootstrap,
        "assign": json.dumps({topic.name: [0]}),
        "startingOffsets": json.dumps({topic.name: {"0": 0}}),
        "endingOffsets": json.dumps({topic.name: {"0": end}}),
        **more,
    }
    return spark.read.format("kafka").options(**options).load().selectExpr("cast(value as string) as v")


def send(topic: Topic, count: int, text: str = ALL) -> None:
    topic.send([Message(key=None, value=text.encode())] * count)


def test_offsets_that_kafka_no_longer_has(spark: SparkSession, topic: Topic) -> None:
    send(topic, 3)
    error = judged(lambda: read(spark, topic, end=9, **{"kafkaConsumer.pollTimeoutMs": "5000"}).toArrow())
    assert type(error) is MessagesGone


def test_a_value_in_kafka_that_cannot_be_cast(spark: SparkSession, topic: Topic) -> None:
    send(topic, 3)
    assert type(judged(lambda: read(spark, topic, end=3).selectExpr("cast(v as int)").toArrow())) is JobFailed


@pytest.mark.parametrize("server", ["127.0.0.1:9", "nowhere.invalid:9092"])
def test_no_kafka_there(spark: SparkSession, topic: Topic, server: str) -> None:
    frame = read(spark, topic, end=3, **{"kafka.bootstrap.servers": server})
    assert type(judged(frame.toArrow)) is Unreachable


def test_kafka_away_while_a_task_reads(spark: SparkSession, topic: Topic, kafka: Kafka, tmp_path: Path) -> None:
    """Its classes have no stack: that a task failed with them is known by the job's end."""
    send(topic, 20_000, "x" * 1000)
    small = {"kafka.max.poll.records": "100", "kafka.fetch.max.bytes": "100000"}
    frame = read(spark, topic, end=20_000, **small, **{"kafka.max.partition.fetch.bytes": "100000"})
    begun, gone = tmp_path / "begun", tmp_path / "gone"

    def waits(rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            begun.touch()
            eventually(gone.exists, why="the broker to be stopped")
            yield row

    def stop() -> None:
        eventually(begun.exists, why="the task to read")
        kafka.stop()
        gone.touch()

    stopping = threading.Thread(target=stop)
    stopping.start()
    try:
        assert type(judged(lambda: frame.rdd.mapPartitions(waits).collect())) is Unreachable
    finally:
        stopping.join()
        kafka.start()


@pytest.mark.parametrize("error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "")])
def test_a_bridge_without_its_other_end(error: Exception) -> None:
    assert type(meaning(error)) is SparkGone
