"""Pictures as SVG: bars of rates, and figures over time."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from tools.bench.summary import Group, rate, rate_from_start
from tools.peers.systems import CEILING, SURELANE

WIDTH = 900
_FONT = 'font-family="Helvetica, Arial, sans-serif" font-size="12"'
_DARK = "#222222"
# of bars
_LEFT, _RIGHT, _TOP = 190, 170, 50
_BAR, _GAP, _GROUP = 16, 10, 34
#: colours: rate from the first visible row, rate from process start
_OTHER = ("#4a5a70", "#b4c0d0")
_COLOURS = {SURELANE: ("#0b6e4f", "#8fd3b6"), CEILING: ("#b8860b", "#b8860b")}
# of lines
HEIGHT = 260
_BEGIN, _END, _ABOVE, _BELOW = 70, 120, 40, 30
_LINES = ("#0b6e4f", "#b8860b", "#4a5a70", "#a03030")


def bars(drains: Sequence[Group]) -> str:
    """Two bars for each system, grouped by workload and messages."""
    longest = max((found for one in drains for found in _rates(one) if found), default=1.0)
    head = "messages/s: dark from the first visible row, light from process start"
    lines, place = [_text(10, 22, head, bold=True)], _TOP
    for kind, messages in dict.fromkeys((one.get("workload"), one.get("messages")) for one in drains):
        lines.append(_text(10, place, f"workload {kind}, {messages:,} messages", bold=True))
        place += _GAP
        for one in drains:
            if (one.get("workload"), one.get("messages")) == (kind, messages):
                lines += _bars(one, place, longest)
                place += 2 * _BAR + _GAP
        place += _GROUP
    return _picture(lines, place)


def _rates(one: Group) -> tuple[float | None, float | None]:
    return one.median(rate), one.median(rate_from_start)


def _bars(one: Group, top: int, longest: float) -> Iterator[str]:
    system = one.get("system")
    yield _text(_LEFT - 10, top + _BAR + 4, system, anchor="end", bold=system == SURELANE)
    if _rates(one) == (None, None):
        yield _text(_LEFT, top + _BAR + 4, "no run was right")
    for line, (found, colour) in enumerate(zip(_rates(one), _COLOURS.get(system, _OTHER), strict=True)):
        if found is not None:
            width = (WIDTH - _LEFT - _RIGHT) * found / longest
            y = top + line * _BAR
            yield f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" fill="{colour}"/>'
            yield _text(round(_LEFT + width) + 6, y + _BAR - 4, f"{found:,.0f}{'' if one.is_right else ' WRONG'}")


def lines(title: str, at: Sequence[float], found: Mapping[str, Sequence[float]]) -> str:
    """One line for each name; `at` is in minutes, and the axis of the values starts at 0."""
    last = max(at, default=0.0) or 1.0
    top = max((value for values in found.values() for value in values), default=0.0) or 1.0
    parts = [
        _text(10, 22, title),
        _text(_BEGIN - 8, _ABOVE + 4, f"{top:,.0f}", anchor="end"),
        _text(_BEGIN - 8, HEIGHT - _BELOW, "0", anchor="end"),
        _text(WIDTH - _END, HEIGHT - 8, f"{last:,.0f} min", anchor="end"),
        f'<path d="M{_BEGIN} {_ABOVE}V{HEIGHT - _BELOW}H{WIDTH - _END}" fill="none" stroke="#999999"/>',
    ]
    for number, (name, values) in enumerate(found.items()):
        colour = _LINES[number % len(_LINES)]
        x = [_BEGIN + (WIDTH - _BEGIN - _END) * minute / last for minute in at]
        y = [HEIGHT - _BELOW - (HEIGHT - _ABOVE - _BELOW) * value / top for value in values]
        path = " ".join([f"{one:.1f},{other:.1f}" for one, other in zip(x, y, strict=True)])
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if y:
            parts.append(_text(WIDTH - _END + 6, round(y[-1]) + 4, name, colour=colour))
    return _picture(parts, HEIGHT)


def _picture(parts: Sequence[str], height: int) -> str:
    size = f'width="{WIDTH}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {height}" {_FONT}>'
    return "\n".join([head, f'<rect {size} fill="#ffffff"/>', *parts, "</svg>", ""])


def _text(x: int, y: int, text: str, *, anchor: str = "start", bold: bool = False, colour: str = _DARK) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{weight} fill="{colour}">{escape(text)}</text>'
