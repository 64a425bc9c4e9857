"""What happens to a process when its parent ends, however that ends (Linux, prctl(2))."""

import ctypes

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def signal_at_parents_end(number: int) -> None:
    """The kernel sends this signal to the calling process when its parent ends; safe between fork and exec."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number)
