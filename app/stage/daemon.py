"""PySpark's daemon of Python workers, with everything imported before it forks: `spark.python.daemon.module`.

A worker that starts is ready in milliseconds instead of the second or two that the imports take. Where there is a fork
server (`app.stage.fork_server`) its fork is the daemon, and this process only waits for its end.
"""

import gc
import sys
from collections.abc import Callable

from app.stage.fork_server import handed_over


def main() -> int:
    """The exit status."""
    status = handed_over(sys.argv[1])
    if status is not None:
        return status
    gc.disable()  # until a worker has been forked: what is imported stays
    run = imported()
    gc.freeze()
    gc.enable()
    run()
    return 0


def imported() -> Callable[[], None]:
    """What runs the daemon, once all that its workers need is imported."""
    from pyspark.daemon import manager

    from app.stage import serving  # noqa: F401

    return manager


if __name__ == "__main__":
    sys.exit(main())
