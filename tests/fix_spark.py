"""The one Spark session of all tests that run a lane inside the test process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from app.jars import jars
from app.java import java_home
from app.spark.class_archive import make_archive
from app.spark.jvm import start_jvm
from app.spark.session import make_session
from app.spark.session_options import options


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as the service makes it."""
    make_archive()
    java = java_home()
    session = make_session(start_jvm(options("tests", "local[2]", {}, java, jars("spark")), java))
    yield session
    session.stop()
