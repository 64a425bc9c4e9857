"""What the kernel knows of a process (Linux, prctl(2)): its name, and what happens to it when its parent ends."""

import ctypes

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_LIBC = ctypes.CDLL(None, use_errno=True)


def signal_at_parents_end(number: int) -> None:
    """The kernel sends this signal to the calling process when its parent ends; safe between fork and exec."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number)


def name_process(name: str) -> None:
    """What `ps -o comm` and `top` call it, in 15 characters: its command line is that of what it is a fork of."""
    _LIBC.prctl(_PR_SET_NAME, name.encode())
