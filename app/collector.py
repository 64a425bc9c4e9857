"""Python's garbage collector in a process that makes messages by the hundred thousand, none of which is in a cycle."""

import gc

#: objects made and kept until Python looks for cycles among the newest, times until it looks among the older, and the
#: oldest
_EVERY = (10_000, 10, 50)


def settle_collector() -> None:
    """What there is now is not looked at again (modules, mostly), and what comes from now on seldom."""
    gc.freeze()
    gc.set_threshold(*_EVERY)
    gc.enable()
