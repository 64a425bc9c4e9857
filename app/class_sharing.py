"""Java's options for class data sharing: a JVM maps its classes from a file instead of reading and checking them."""

from pathlib import Path

#: no log lines about an archive that does not fit
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def options_to_use(path: Path) -> str:
    """Java options for the archive at `path`; empty when it does not exist."""
    return f"-XX:SharedArchiveFile={path} {_QUIET}" if path.exists() else ""


def options_to_make(path: Path) -> str:
    """Java options for a JVM that writes the archive when it ends."""
    return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"
