"""Draws figures over time as SVG."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 900, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 120, 40, 30
_COLOURS = ("#0b6e4f", "#b8860b", "#4a5a70", "#a03030")
_FONT = 'font-family="Helvetica, Arial, sans-serif" font-size="12"'


def picture(title: str, at: Sequence[float], lines: Mapping[str, Sequence[float]]) -> str:
    """One line for each name; `at` is in minutes, and the axis of the values starts at 0."""
    last = max(at, default=0.0) or 1.0
    top = max((value for values in lines.values() for value in values), default=0.0) or 1.0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" {_FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(10, 22, title),
        _text(_LEFT - 8, _TOP + 4, f"{top:,.0f}", anchor="end"),
        _text(_LEFT - 8, HEIGHT - _BOTTOM, "0", anchor="end"),
        _text(WIDTH - _RIGHT, HEIGHT - 8, f"{last:,.0f} min", anchor="end"),
        f'<path d="M{_LEFT} {_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}" fill="none" stroke="#999999"/>',
    ]
    for number, (name, values) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [(_x(minute, last), _y(value, top)) for minute, value in zip(at, values, strict=True)]
        path = " ".join([f"{x:.1f},{y:.1f}" for x, y in places])
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        if places:
            parts.append(_text(WIDTH - _RIGHT + 6, round(places[-1][1]) + 4, name, colour=colour))
    return "\n".join([*parts, "</svg>", ""])


def _x(minute: float, last: float) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * minute / last


def _y(value: float, top: float) -> float:
    return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * value / top


def _text(x: int, y: int, text: str, *, anchor: str = "start", colour: str = "#222222") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'
