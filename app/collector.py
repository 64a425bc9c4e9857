"""Python's garbage collector in a process that creates messages by the hundred thousand, none of them in a cycle."""

import gc

#: thresholds of the three generations: objects created and not freed before a collection of the youngest, collections
#: of the youngest before one of the middle, collections of the middle before one of the oldest
_EVERY = (10_000, 10, 50)


def settle_collector() -> None:
    """Exclude existing objects (modules, mostly) from garbage collection, and collect new ones rarely."""
    gc.freeze()
    gc.set_threshold(*_EVERY)
    gc.enable()
