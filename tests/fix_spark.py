"""The one Spark session of all tests that run a lane inside the test process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from app.jars import jars
from app.java import java_home
from app.spark.class_archive import make_archive
from app.spark.session import make_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as the service makes it."""
    make_archive()
    session = make_session("tests", "local[2]", {}, java_home(), jars("spark"))
    yield session
    session.stop()
