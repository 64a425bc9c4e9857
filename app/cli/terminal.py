"""The console that results are printed on."""

import sys

from rich.console import Console

#: columns of a table that goes to another program: each row on one line
PIPED_WIDTH = 250


def console() -> Console:
    """As wide as the terminal, or wide enough for whole rows."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
