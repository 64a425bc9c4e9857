"""A screen of the console: what is at one address of its own below `/lanes/<lane>`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.cli.rendering import Document
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane

Reading = Callable[[ServedLane, Parameters], Document]
#: a parameter in a screen's path, with its name
PATH_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


@dataclass(frozen=True, kw_only=True)
class Screen:
    """What is at one address."""

    name: str
    #: below /lanes/<lane>
    path: str
    title: str
    reading: Reading
    #: a file of templates/; its part `live` is what the stream sends
    template: str
    #: seconds between two readings while a page is open; None: it is not read again
    seconds: float | None
    #: one sentence for the OpenAPI document
    gives: str
    #: top-level keys of the document, and their meaning
    keys: Mapping[str, str]
    #: filters of the address, and their meaning
    filters: Mapping[str, str] = field(default_factory=dict)
    #: whether the navigation has it
    is_main: bool = True
    #: what the page has before the stream's first event, where the reading waits for other servers
    quick: Reading | None = None
    #: what the stream has, where that waits less than the reading
    live: Reading | None = None
    #: whether a document stays as it is, so that its page needs no stream
    is_final: Callable[[Document], bool] = lambda _: False

    def first(self, lane: ServedLane, asked: Parameters) -> Document:
        """The document of a page that is opened."""
        return (self.quick or self.reading)(lane, asked)

    def next(self, lane: ServedLane, asked: Parameters) -> Document:
        """The document of a page that is open."""
        return (self.live or self.reading)(lane, asked)

    @property
    def section(self) -> str:
        """The path of the screen that leads here."""
        return "/" + self.path.split("/")[1]
