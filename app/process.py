"""This process as the kernel sees it (Linux): its name, its end, its parent's end, and the signals that ask to stop."""

import ctypes
import os
import select
import signal

#: they ask the lane to stop; what it starts does not take them
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_LIBC = ctypes.CDLL(None, use_errno=True)


def signal_at_parents_end(number: int) -> None:
    """The kernel sends this signal to the calling process when its parent ends; safe between fork and exec."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number)


def end_with(parent: int) -> None:
    """The kernel kills this process when its parent ends; it exits at once if the parent has ended already."""
    signal_at_parents_end(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def name_process(name: str) -> None:
    """What `ps -o comm` and `top` call it, in 15 characters: its command line is that of what it is a fork of."""
    _LIBC.prctl(_PR_SET_NAME, name.encode())


def ignore_stop_signals() -> None:
    """Safe between fork and exec."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def ends_within(pid: int, seconds: float) -> bool:
    """Whether a child that was not waited for ends within so many seconds; it is left to be waited for."""
    ended = os.pidfd_open(pid)
    try:
        return bool(select.select([ended], [], [], seconds)[0])
    finally:
        os.close(ended)
