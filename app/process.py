"""This process in the kernel (Linux): its name, its end, the end of its parent, and its stop signals."""

import ctypes
import os
import select
import signal

#: they stop the lane; the processes that it starts ignore them
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_THP_DISABLE = 1, 15, 41
_LIBC = ctypes.CDLL(None, use_errno=True)


def signal_at_parents_end(number: int) -> None:
    """Let the kernel send this signal to the calling process when its parent ends; safe between fork and exec."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number)


def end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends; exit at once if the parent has ended already."""
    signal_at_parents_end(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def name_process(name: str) -> None:
    """Set the name that `ps -o comm` and `top` show, at most 15 characters; a fork has its parent's command line."""
    _LIBC.prctl(_PR_SET_NAME, name.encode())


def use_small_pages() -> None:
    """Have the kernel give this process pages of 4 KB alone. Arrow's allocator asks for some of 2 MB, which are cleared
    whole, and uses a part of each."""
    _LIBC.prctl(_PR_SET_THP_DISABLE, 1, 0, 0, 0)


def ignore_stop_signals() -> None:
    """Ignore and unblock STOP_SIGNALS; safe between fork and exec."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def ends_within(pid: int, seconds: float) -> bool:
    """Whether a child that was not reaped ends within `seconds`; does not reap it."""
    ended = os.pidfd_open(pid)
    try:
        return bool(select.select([ended], [], [], seconds)[0])
    finally:
        os.close(ended)
