"""The Spark session of the service: classic PySpark, driver in this process."""

import io
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from app.skipped_imports import have_spark_skip_pandas
from app.spark.jvm import Jvm


def make_session(jvm: Jvm) -> SparkSession:
    """The one session of this process, in the JVM that was started for it, with that JVM's options."""
    assert SparkContext._gateway is None, "a process has one JVM"  # pyright: ignore[reportPrivateUsage]
    have_spark_skip_pandas()  # while the JVM comes up
    logging.getLogger("SQLQueryContextLogger").disabled = True  # it logs what is raised anyway
    conf = SparkConf(loadDefaults=False)
    for key, value in jvm.options.items():  # once more: they win over what the environment sets for Spark's script
        conf.set(key, value)
    with _connects_to(jvm.address()), _signals_kept():
        SparkContext.getOrCreate(conf)
    session: SparkSession = SparkSession.Builder().getOrCreate()
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    gateway.proc = jvm.process  # as PySpark does with one that it starts itself: the JVM ends when its stdin closes
    return session


@contextmanager
def _connects_to(address: bytes) -> Iterator[None]:
    """Have PySpark connect to this JVM, which environment variables name, instead of starting one."""
    stream = io.BytesIO(address)
    names = {"PYSPARK_GATEWAY_PORT": str(read_int(stream)), "PYSPARK_GATEWAY_SECRET": UTF8Deserializer().loads(stream)}
    os.environ.update(names)
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore the handler of SIGINT, which PySpark replaces with its own: that one is no way to end a lane."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def is_gone(session: SparkSession) -> bool:
    """Whether the JVM of the session has ended."""
    gateway: Any = session.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    return gateway.proc.poll() is not None


def stop_session(session: SparkSession) -> None:
    """Stop Spark; does nothing where the JVM is gone."""
    with suppress(Py4JError, ConnectionError):
        session.stop()
