"""Draws the rates of all systems as SVG."""

from collections.abc import Iterator
from html import escape

from tools.bench.peers.summary import Drained, Drains
from tools.bench.peers.system import System

WIDTH = 900
_LEFT, _RIGHT, _TOP = 170, 170, 50
_BAR, _GAP, _GROUP = 16, 10, 34
_FONT = 'font-family="Helvetica, Arial, sans-serif" font-size="12"'
#: colours: rate from the first visible row, rate from process start
_OWN, _OTHER, _CEILING = ("#0b6e4f", "#8fd3b6"), ("#4a5a70", "#b4c0d0"), ("#b8860b", "#b8860b")


def rates(found: Drains) -> str:
    """Two bars for each system, grouped by workload and number of messages."""
    known = list(found.values())
    longest = max((rate for one in known for rate in (one.rate, one.rate_from_start) if rate), default=1.0)
    lines, place = [], _TOP
    for kind, messages in dict.fromkeys((one.workload, one.messages) for one in known):
        lines.append(_text(10, place, f"workload {kind}, {messages:,} messages", bold=True))
        place += _GAP
        for one in (one for one in known if (one.workload, one.messages) == (kind, messages)):
            lines += _bars(one, place, longest)
            place += 2 * _BAR + _GAP
        place += _GROUP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{place}" '
        f'viewBox="0 0 {WIDTH} {place}" {_FONT}>'
        f'<rect width="{WIDTH}" height="{place}" fill="#ffffff"/>'
    )
    title = _text(10, 22, "messages/s: dark from the first visible row, light from process start", bold=True)
    return "\n".join([head, title, *lines, "</svg>", ""])


def _bars(one: Drained, top: int, longest: float) -> Iterator[str]:
    dark, light = {System.SURELANE: _OWN, System.CEILING: _CEILING}.get(one.system, _OTHER)
    yield _text(_LEFT - 10, top + _BAR + 4, str(one.system), anchor="end", bold=one.system is System.SURELANE)
    mark = "" if one.right else " WRONG"
    if not one.runs:
        yield _text(_LEFT, top + _BAR + 4, "no run was right")
    for line, (rate, colour) in enumerate(((one.rate, dark), (one.rate_from_start, light))):
        if rate is not None:
            width = (WIDTH - _LEFT - _RIGHT) * rate / longest
            y = top + line * _BAR
            yield f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" fill="{colour}"/>'
            yield _text(round(_LEFT + width) + 6, y + _BAR - 4, f"{rate:,.0f}{mark}")


def _text(x: int, y: int, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{weight} fill="#222222">{escape(text)}</text>'
