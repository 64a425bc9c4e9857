"""Documents as HTML. Every value is escaped, and what could turn or hide text is shown as an escape, as in the CLI."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from app.cli.indoubt_view import MAX_LINES
from app.cli.quarantine_view import shown
from app.cli.rendering import Document, age, byte_size, moment, offsets, pause_text, position, printable, ranges
from app.cli.snapshot_view import lanes_text, position_text
from app.console.parameters import Parameters
from app.console.quarantine_reading import readable
from app.console.screen import PATH_PARAMETER, Screen
from app.console.screens import SCREENS
from app.console.served_lanes import ServedLane

#: width of a bar of steps, in SVG's units
BAR_UNITS = 1_000
_MINUTE = 60
#: steps of an epoch, as the lane's log names them
STEPS_DO = {
    "settle": "COMMIT of the epoch before",
    "guard": "record of the attempt",
    "stage": "read, decode and copy, by stage processes",
    "decode": "read and decode, by the driver",
    "prepare": "plans of the tables",
    "apply": "merge",
    "identify": "identity of the topic and of the last messages",
    "pre-commit": "PREPARE TRANSACTION; COMMIT in the one-phase modes",
    "commit": "COMMIT PREPARED",
}
_NUMBERS = {name: number for number, name in enumerate(STEPS_DO)}
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
            "offsets": partial(offsets, between="\n"),
            "ranges": ranges,
            "position": position,
            "position_text": position_text,
            "lanes_text": lanes_text,
            "pause_text": pause_text,
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
            "steps_do": STEPS_DO,
        }
        self._environment.globals["parts"] = self._environment.get_template("parts.html").module

    def page(self, template: str, values: Mapping[str, Any]) -> str:
        return self._environment.get_template(template).render(values)

    def live(self, template: str, values: Mapping[str, Any]) -> str:
        """The part of the page that a stream sends."""
        found = self._environment.get_template(template)
        return "".join(found.blocks["live"](found.new_context(dict(values))))


def bars(steps: Mapping[str, float]) -> list[dict[str, Any]]:
    """Steps as parts of a bar of BAR_UNITS: name, milliseconds, beginning and width."""
    total = sum(steps.values()) or 1.0
    found: list[dict[str, Any]] = []
    at = 0.0
    for name, ms in steps.items():
        number = _NUMBERS.get(name, len(_NUMBERS))
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
