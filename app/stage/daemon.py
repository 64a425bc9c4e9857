"""PySpark's daemon of Python workers, with everything imported before it forks: `spark.python.daemon.module`.

A worker that starts is ready in milliseconds instead of the second or two that the imports take.
"""

import gc

gc.disable()  # until a worker has been forked: what is imported stays

from pyspark import daemon  # noqa: E402

from app.stage import serving  # noqa: E402, F401  # what it imports is what the workers need

if __name__ == "__main__":
    gc.freeze()
    gc.enable()
    daemon.manager()
