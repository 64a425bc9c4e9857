"""A lane does not import pandas; what imports it later has all of it."""

import subprocess
import sys

_PROGRAM = """
import sys
from app.pandas_import import have_arrow_skip_pandas
have_arrow_skip_pandas()
from app.stage.daemon import imported
imported()
import app.worker.retry_loop
print("pandas" in sys.modules)
import pyarrow as pa
print(pa.table({"a": [1]}).to_pandas().shape)
import pandas
print(pa.array(pandas.Series([1.0, None])).null_count)
"""


def test_it_is_imported_by_those_that_use_it() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["False", "(1, 1)", "1", ""]
