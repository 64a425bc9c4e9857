"""PySpark's daemon of Python workers, with everything imported before it forks: `spark.python.daemon.module`.

A worker is ready in milliseconds instead of the second or two that its imports take. Where there is a fork server
(`app.stage.fork_server`) a fork of it is the daemon, and this process only waits for the daemon's end.
"""

import gc
import sys
from collections.abc import Callable

from app.stage.fork_server import handed_over


def main() -> int:
    status = handed_over(sys.argv[1])
    if status is not None:
        return status
    gc.disable()  # while importing: what is imported stays
    run = imported()
    gc.freeze()
    gc.enable()
    run()
    return 0


def imported() -> Callable[[], None]:
    """Import all that the daemon's workers need. Returns the function that runs the daemon."""
    from pyspark.daemon import manager

    from app.stage import serving

    def run() -> None:
        serving.become_daemon()
        manager()

    return run


if __name__ == "__main__":
    sys.exit(main())
