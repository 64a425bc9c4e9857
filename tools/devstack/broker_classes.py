"""An archive of a broker's classes, as Spark's JVM has one (`app.spark.class_archive`): a start takes 3 CPU seconds
instead of 5."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from app.class_sharing import archive_of, dump, make_once, options_to_list, options_to_use
from app.java import java_home

#: another one for another way of making it
_EDITION = "2"
#: for writing the archive, on a busy machine
_SECONDS = 300


def classes(class_path: str, rehearse: Callable[[Sequence[str]], None]) -> list[str]:
    """Java options with which a broker starts from the archive.

    Where it is missing, `rehearse` starts and stops a broker with the options that it gets, once.
    """

    def make(part: Path) -> None:
        listing = part.with_suffix(".classes")
        rehearse(options_to_list(listing).split())
        if listing.exists():
            dump(java_home(), listing, [Path(jar) for jar in class_path.split(os.pathsep)], part, _SECONDS)
        part.touch()  # a Java that wrote none passes over an empty one, and is not tried at each start

    path = archive_of(java_home(), [class_path, _EDITION], "broker-")
    make_once(path, make)
    return options_to_use(path).split()
