"""Documents as HTML. Every value is escaped, and what could turn or hide text is shown as an escape, as in the CLI."""

import json
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from app.cli.guard_view import narrowing_text
from app.cli.indoubt_view import MAX_LINES
from app.cli.next_command import without_hint
from app.cli.quarantine_view import shown, written_at
from app.cli.recover_view import order_text, replay_text
from app.cli.rendering import Document, age, byte_size, moment, offsets, pause_text, position, printable, ranges
from app.cli.replayable_view import replayable_text
from app.cli.snapshot_view import lanes_text, position_text
from app.console.parameters import Parameters
from app.console.quarantine_reading import readable
from app.console.screen import PATH_PARAMETER, Screen
from app.console.screens import SCREENS
from app.console.served_lanes import ServedLane
from app.console.timeline import NUMBERS, PARTS

#: width of a timeline's bar, in SVG's units
BAR_UNITS = 1_000
_MINUTE = 60
#: bars that are kept
MAX_BARS = 2_000
#: most characters of a key or an error in a list
MAX_CELL_CHARACTERS = 80


class Pages:
    """The templates."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("app.console"),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_finalized,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters |= {
            "age": age,
            "bytes": byte_size,
            "moment": moment,
            "written_at": written_at,
            "offsets": partial(offsets, between="\n"),
            "ranges": ranges,
            "position": position,
            "position_text": position_text,
            "lanes_text": lanes_text,
            "pause_text": pause_text,
            "order_text": order_text,
            "without_hint": without_hint,
            "narrowing_text": narrowing_text,
            "replayable_text": replayable_text,
            "replay_text": replay_text,
            "number": _number,
            "duration": _duration,
            "segment": partial(quote, safe=""),
            "as_json": json.dumps,
            "cell": _cell,
        }
        self._environment.globals |= {
            "screens": [screen for screen in SCREENS if screen.is_main],
            "readable": readable,
            "bars": bars,
            "urlencode": urlencode,
            "max_lines": MAX_LINES,
            "page_path": page_path,
            "timeline_parts": PARTS,
            "part_number": NUMBERS.get,
        }
        for name in self._environment.list_templates():
            self._environment.get_template(name)  # compiled before the first page, not for it
        self._environment.globals["parts"] = self._environment.get_template("parts.html").module
        self._environment.globals["bar"] = self._bar
        self._bars = lru_cache(MAX_BARS)(self._drawn)

    def _bar(self, timeline: Mapping[str, float]) -> Markup:
        """A timeline's bar. It is drawn once: an epoch is on many pages, and on each again and again."""
        return self._bars(tuple(timeline.items()))

    def _drawn(self, timeline: tuple[tuple[str, float], ...]) -> Markup:
        return Markup(self._environment.get_template("bar.html").render({"found": bars(dict(timeline))}))

    def page(self, template: str, values: Mapping[str, Any]) -> str:
        return self._environment.get_template(template).render(values)

    def live(self, template: str, values: Mapping[str, Any]) -> str:
        """The part of the page that a stream sends."""
        found = self._environment.get_template(template)
        return "".join(found.blocks["live"](found.new_context(dict(values))))


def bars(parts: Mapping[str, float]) -> list[dict[str, Any]]:
    """Parts of a timeline as those of a bar of BAR_UNITS: name, milliseconds, beginning and width."""
    total = sum(parts.values()) or 1.0
    found: list[dict[str, Any]] = []
    at = 0.0
    for name, ms in parts.items():
        number = NUMBERS.get(name, len(NUMBERS))
        width = ms / total * BAR_UNITS
        found.append({"name": name, "ms": ms, "x": round(at, 1), "width": round(width, 1), "number": number})
        at += width
    return found


def page_path(lane: ServedLane, screen: Screen, asked: Parameters) -> str:
    """The address of a screen, with its filters."""
    path = PATH_PARAMETER.sub(lambda found: quote(asked.text(found[1]) or "", safe=""), screen.path)
    return f"/lanes/{lane.name}{path}" + (f"?{asked.query}" if asked.query else "")


def _cell(value: Document | str | None) -> str:
    """A text, or a message's key, in one short line."""
    text = value if isinstance(value, str) else "null" if value is None else shown(value)
    text = " ".join(text[: MAX_CELL_CHARACTERS * 10].split())
    return text if len(text) <= MAX_CELL_CHARACTERS else text[: MAX_CELL_CHARACTERS - 3] + "..."


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def _duration(seconds: float) -> str:
    """With a decimal while it is short."""
    return f"{seconds:,.1f} s" if seconds < _MINUTE else age(seconds)


def _finalized(value: Any) -> Any:
    """Text of a document; what a template itself made is markup already."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "-" if value is None else value
    return printable(value)
