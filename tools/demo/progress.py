"""What is shown while the demo works: a line for each step, with a live one below on a terminal."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape


class Progress:
    """Writes to stderr: stdout is the report's."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._began = time.monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[Callable[[str], None]]:
        """Show that a step is at work, and how long it took; the function it gives shows a detail meanwhile."""
        began = time.monotonic()
        if not self._console.is_terminal:
            self._console.print(f"surelane: {escape(title)}")
            yield lambda _: None
            return
        with self._console.status(f"{title} ...") as status:
            yield lambda detail: status.update(f"{title} ... [dim]{escape(detail)}[/]")
        self._console.print(f"[green]✓[/] {escape(title)} [dim]{time.monotonic() - began:.1f} s[/]")

    def say(self, words: str) -> None:
        """A line."""
        self._console.print(escape(words), soft_wrap=True)

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._began
