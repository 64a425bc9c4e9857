"""Draws a chart as inline SVG that fits any width: shapes stretch, text and line widths do not.

Horizontal positions are percent of the time shown, vertical ones are pixels; shapes are in a nested SVG of 1000
units that stretches with the page.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from tools.demo.timeline import Series

HEIGHT = 112
#: pixels above the highest value, so that a label fits
TOP = 16
STRETCH = 1000
#: pixels of a label's baseline above its line
LABEL_RISE = 4
#: times a power of ten: the round numbers of an axis; their halves are round, too
ROUND = (1, 2, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, kw_only=True)
class Scale:
    """Maps a value to pixels from the top."""

    y: Callable[[float], float]
    #: (value, label) of the horizontal lines
    marks: tuple[tuple[float, str], ...]


def linear(values: Sequence[float], limit: float = math.inf) -> Scale:
    """From 0 to a round number above all values, or above `limit` if less; higher values are drawn at the top."""
    top = round_up(min(max(values, default=0), limit) or 1)
    return Scale(
        y=lambda value: HEIGHT - (HEIGHT - TOP) * min(value / top, 1.0),
        marks=tuple((mark, f"{mark:,.0f}") for mark in (top / 2, top)),
    )


def logarithmic(values: Sequence[float], lowest: float) -> Scale:
    """Powers of ten from `lowest` to above all values, seconds as labels."""
    first = math.floor(math.log10(lowest))
    last = max(first + 1, math.ceil(math.log10(max(values, default=lowest) or lowest)))

    def y(value: float) -> float:
        share = (math.log10(max(value, lowest)) - first) / (last - first)
        return HEIGHT - (HEIGHT - TOP) * share

    return Scale(y=y, marks=tuple((10.0**power, f"{10.0**power:g} s") for power in range(first + 1, last + 1)))


def round_up(value: float) -> float:
    """The smallest round number that is not less than `value`; at least 2."""
    value = max(value, 2.0)
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in ROUND if step * power >= value)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What all charts of a page share: the time shown, in seconds, and the SVG behind the lines."""

    seconds: float
    backdrop: str

    def percent(self, at: float) -> str:
        """Horizontal position of a moment."""
        return f"{100 * at / self.seconds:.3f}%"

    def chart(self, title: str, scale: Scale, shapes: str, words: str = "") -> str:
        """A chart with horizontal lines, labels and `words`; `title` is for screen readers."""
        marks = [(scale.y(value), label) for value, label in scale.marks]
        lines = "".join(f'<line class="mark" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>' for y, _ in marks)
        labels = "".join(f'<text class="label" x="2" y="{y - LABEL_RISE:.1f}">{label}</text>' for y, label in marks)
        box = f'viewBox="0 0 {STRETCH} {HEIGHT}" preserveAspectRatio="none" width="100%" height="{HEIGHT}"'
        return (
            f'<svg class="plot" role="img" aria-label="{escape(title)}" width="100%" height="{HEIGHT}">'
            f"{self.backdrop}{lines}<svg {box}>{shapes}</svg>{labels}{words}"
            f'<line class="base" x1="0" x2="100%" y1="{HEIGHT - 0.5}" y2="{HEIGHT - 0.5}"/></svg>'
        )

    def area(self, series: Series, scale: Scale, style: str) -> str:
        if not series:
            return ""
        first, last = self._x(series[0][0]), self._x(series[-1][0])
        outline = self._outline(series, scale)
        return f'<path class="area {style}" d="M{first} {HEIGHT}L{outline}L{last} {HEIGHT}Z"/>' + (
            f'<path class="line {style}" d="M{outline}"/>'
        )

    def bars(self, series: Series, scale: Scale, style: str) -> str:
        width = 0.8 * STRETCH / self.seconds
        return "".join(
            f'<rect class="bar {style}" x="{self._x(at + 0.1)}" width="{width:.2f}"'
            f' y="{scale.y(value):.1f}" height="{HEIGHT - scale.y(value):.1f}"/>'
            for at, value in series
            if value
        )

    def peak(self, series: Series, scale: Scale) -> str:
        """The highest value as text, if it exceeds the scale; else empty."""
        at, value = max(series, key=lambda point: point[1], default=(0.0, 0.0))
        if value <= scale.marks[-1][0]:
            return ""
        anchor, shift = ("end", -4) if at > self.seconds / 2 else ("start", 10)
        return (
            f'<text class="peak" x="{self.percent(at)}" dx="{shift}" y="11" text-anchor="{anchor}">{value:,.0f}</text>'
        )

    def steps(self, series: Series, scale: Scale, style: str) -> str:
        """A line that stays at each point's value for one second."""
        corners = [corner for at, value in series for corner in ((at, value), (at + 1, value))]
        return f'<path class="line {style}" d="M{self._outline(tuple(corners), scale)}"/>' if corners else ""

    def _outline(self, series: Series, scale: Scale) -> str:
        return "L".join(f"{self._x(at)} {scale.y(value):.1f}" for at, value in series)

    def _x(self, at: float) -> str:
        return f"{STRETCH * min(at, self.seconds) / self.seconds:.2f}"
