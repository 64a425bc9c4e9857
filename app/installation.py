"""What is installed."""

from importlib import metadata


def version() -> str:
    """This installation's version; "source" when it runs from a checkout."""
    try:
        return metadata.version("surelane")
    except metadata.PackageNotFoundError:
        return "source"
