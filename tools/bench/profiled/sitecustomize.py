"""Has a lane profile its own Python: every process whose path begins with this folder imports it at its start.

CPU time by function over all threads (an epoch runs in a thread that Spark's JVM calls), written at the end to
`python-<pid>.pstats` in the folder where the process runs. See docs/PROFILING.md.
"""

import atexit
import os
import pstats
import sys
import threading
import time
from cProfile import Profile
from pathlib import Path


class _Threads(Profile):
    """Of one thread."""

    def create_stats(self) -> None:
        """Without what has not returned: `Profile` would end it by the clock of the thread that asks."""
        self.snapshot_stats()


_profiles: list[_Threads] = []


def _begin() -> _Threads:
    profile = _Threads(time.thread_time)
    _profiles.append(profile)
    profile.enable()
    return profile


def _write() -> None:
    used = [profile for profile in _profiles if profile.getstats()]
    pstats.Stats(*used).dump_stats(Path.cwd() / f"python-{os.getpid()}.pstats")


def _profile_threads() -> None:
    bootstrap = "_bootstrap_inner"  # what `run` of every kind of thread is called by; there is no public place
    begin_thread = getattr(threading.Thread, bootstrap)

    def profiled(thread: threading.Thread) -> None:
        profile = _begin()
        try:
            begin_thread(thread)
        finally:
            profile.disable()

    setattr(threading.Thread, bootstrap, profiled)


if sys.orig_argv[1:4] == ["-m", "app.cli", "run"]:
    _profile_threads()
    atexit.register(_write)
    _begin()
