"""An archive of a broker's classes, as Spark's JVM has one (`app.spark.class_archive`): a start takes 3 CPU seconds
instead of 5."""

from collections.abc import Callable, Sequence
from pathlib import Path

from app.class_sharing import archive_of, make_once, options_to_make, options_to_use
from app.java import java_home


def classes(class_path: str, rehearse: Callable[[Sequence[str]], None]) -> list[str]:
    """Java options with which a broker starts from the archive.

    Where it is missing, `rehearse` starts and stops a broker with the options that it gets, once.
    """

    def make(part: Path) -> None:
        rehearse(options_to_make(part).split())
        part.touch()  # a Java that wrote none passes over an empty one, and is not tried at each start

    path = archive_of(java_home(), [class_path], "broker-")
    make_once(path, make)
    return options_to_use(path).split()
