"""Progress of the demo: a line for each step, and a live line on a terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape


class Progress:
    """Writes to stderr; stdout is for the report."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._began = time.monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        """Show a step while it runs, then its duration; the yielded function shows a detail of the running step."""
        began = time.monotonic()
        if not self._console.is_terminal:
            self._console.print(f"surelane: {escape(title)}")
            yield lambda _: None
            return
        with self._console.status(f"{title} ...") as status:
            yield lambda detail: status.update(f"{title} ... [dim]{escape(detail)}[/]")
        self._console.print(f"[green]✓[/] {escape(title)} [dim]{time.monotonic() - began:.1f} s[/]")

    def say(self, words: str) -> None:
        """Print a line."""
        self._console.print(escape(words), soft_wrap=True)

    @property
    def seconds(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began
