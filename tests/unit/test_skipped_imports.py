"""A lane does not import what it has no use for; what imports it later has all of it."""

import subprocess
import sys

_PANDAS = """
import sys
from app.skipped_imports import have_arrow_skip_pandas, have_spark_skip_pandas
have_arrow_skip_pandas()
from app.stage.daemon import imported
imported()
import app.worker.retry_loop
have_spark_skip_pandas()
from pyspark.sql.types import NumpyArrayConverter
assert not NumpyArrayConverter().can_convert("an argument of the first call of Java")
print("pandas" in sys.modules)
import pyarrow as pa
print(pa.table({"a": [1]}).to_pandas().shape)
import pandas
print(pa.array(pandas.Series([1.0, None])).null_count)
"""
_RICH = """
import sys
from app.skipped_imports import have_structlog_skip_rich
have_structlog_skip_rich()
import app.cli.main, app.cli.run
print("rich" in sys.modules)
import rich.console
print(rich.console.Console.__name__)
"""


def printed(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_pandas_is_imported_by_those_that_use_it() -> None:
    assert printed(_PANDAS) == ["False", "(1, 1)", "1"]


def test_rich_is_imported_by_those_that_use_it() -> None:
    assert printed(_RICH) == ["False", "Console"]
