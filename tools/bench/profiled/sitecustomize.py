"""Profiles a lane's Python. Every Python process imports this module at its start if this folder is first on its path.

It records CPU time by function over all threads (an epoch runs in a thread that Spark's JVM calls), and writes it at
exit to `python-<pid>.pstats` in the working directory of the process. See docs/PROFILING.md.
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
    """The profile of one thread."""

    def create_stats(self) -> None:
        """Leave out calls that have not returned: `Profile` would end them with the clock of the calling thread."""
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
    bootstrap = "_bootstrap_inner"  # the caller of `run` for every thread; there is no public hook
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
