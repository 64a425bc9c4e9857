"""The Spark session of the service: classic PySpark, driver in this process."""

import io
import logging
import os
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Self

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from app.background import begun
from app.errors import SparkGone
from app.skipped_imports import have_spark_skip_pandas
from app.spark.jvm import Jvm

#: the beginning of options that SQL adds to Hadoop's configuration
_OF_SQL = "spark.sql."


class ComingSession:
    """A session that a thread makes, for a second. What needs Java alone, a checkpoint's files say, need not wait."""

    def __init__(self, made: "Future[SparkSession]", conf: SparkConf) -> None:
        self._made, self._conf = made, conf
        self._gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]

    @classmethod
    def of(cls, session: SparkSession) -> Self:
        """Of one that is there."""
        made: Future[SparkSession] = Future()
        made.set_result(session)
        return cls(made, session.sparkContext.getConf())

    def get(self) -> SparkSession:
        """Wait for it. Raises SparkGone where it could not be made: this process can make no other."""
        try:
            return self._made.result()
        except Exception as error:
            text = " ".join(str(error).partition("\n\tat ")[0].split())  # without the stack
            raise SparkGone(f"Spark has made no session: {text}", hint="look at spark.conf and spark.master") from error

    def option(self, name: str) -> str | None:
        """The value of an option. Waits for the session where the configuration does not have it."""
        return self._conf.get(name) or self.get().sparkContext.getConf().get(name)

    @property
    def java(self) -> Any:
        """Java's packages, for Py4J."""
        return self._gateway.jvm

    def hadoop_configuration(self) -> Any:
        """That of the session's queries, by its options and by those that Spark's script was started with."""
        conf = self.java.org.apache.spark.SparkConf()
        for name, value in self._conf.getAll():
            conf.set(name, value)
        made = self.java.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(conf)
        for option in conf.getAllWithPrefix(_OF_SQL):
            made.set(_OF_SQL + option._1(), option._2())
        return made

    @property
    def is_made(self) -> bool:
        return self._made.done() and self._made.exception() is None

    def is_gone(self) -> bool:
        """Whether the JVM has ended, or no session could be made."""
        return self._gateway.proc.poll() is not None or (self._made.done() and not self.is_made)

    def stop(self) -> None:
        """Stop Spark; does nothing where no session could be made, or the JVM is gone."""
        if self._made.exception() is None:
            with suppress(Py4JError, ConnectionError):
                self._made.result().stop()


def begin_session(jvm: Jvm) -> ComingSession:
    """Begin to make the one session of this process, in the JVM that was started for it, with that JVM's options.
    Waits until that is up."""
    assert SparkContext._gateway is None, "a process has one JVM"  # pyright: ignore[reportPrivateUsage]
    have_spark_skip_pandas()  # while the JVM comes up
    logging.getLogger("SQLQueryContextLogger").disabled = True  # it logs what is raised anyway
    conf = SparkConf(loadDefaults=False)
    for key, value in jvm.options.items():  # once more: they win over what the environment sets for Spark's script
        conf.set(key, value)
    with _connects_to(jvm.address()):
        SparkContext._ensure_initialized(conf=conf)  # pyright: ignore[reportPrivateUsage]
    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    gateway.proc = jvm.process  # as PySpark does with one that it starts itself: the JVM ends when its stdin closes

    def make() -> SparkSession:
        # not in the main thread, where PySpark replaces the handler of SIGINT with its own: no way to end a lane. That
        # one has no active session then, only the default one, which is the same
        SparkContext.getOrCreate(conf)
        return SparkSession.Builder().getOrCreate()

    return ComingSession(begun(make), conf)


def make_session(jvm: Jvm) -> SparkSession:
    """The same, waited for."""
    return begin_session(jvm).get()


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
