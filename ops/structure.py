"""docs/packages.svg: the packages of the service as their imports are, made by `python -m ops.structure`.

A package stands in the row below the lowest row of those that import it, so every line goes down. The number of imports
is the thickness of a line. Packages that nearly all others use (ERRANDS) are a row of their own, without lines.
"""

from collections import defaultdict
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import NamedTuple

import grimp

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "packages.svg"
ROOT = "app"
#: used by nearly all: their lines would hide the others
ERRANDS = ("model", "config", "db", "metrics", "ledger", "kafka")
_BOX, _ROW, _GAP, _TOP = (112, 30), 84, 16, 46
_WIDTH = 1000


class Import(NamedTuple):
    """One package imports another."""

    above: str
    below: str


def imports() -> Mapping[Import, int]:
    """How many import statements there are between packages of the service; modules without a package are left out."""
    graph = grimp.build_graph(ROOT)
    packages = {one.removeprefix(f"{ROOT}.") for one in graph.find_children(ROOT) if graph.find_children(one)}
    found = defaultdict[Import, int](int)
    for module in sorted(graph.modules):
        for other in graph.find_modules_directly_imported_by(module):
            one = Import(_package(module), _package(other))
            if one.above != one.below and {one.above, one.below} <= packages:
                found[one] += 1
    return dict(found)


def rows(found: Mapping[Import, int]) -> list[list[str]]:
    """Packages from above to below, without ERRANDS."""
    shown = [one for one in found if not {*one} & {*ERRANDS}]
    left = {package for one in found for package in one} - {*ERRANDS}
    made: list[list[str]] = []
    while left:
        row = sorted(
            package for package in left if not any(one.below == package and one.above in left for one in shown)
        )
        if not row:
            raise ValueError(f"packages import each other in a circle: {', '.join(sorted(left))}")
        made.append(row)
        left -= {*row}
    return made


def picture(found: Mapping[Import, int]) -> str:
    """The SVG."""
    made = rows(found)
    below = sorted({package for one in found for package in one} & {*ERRANDS})
    places = {
        package: (_across(number, len(row)), _TOP + level * _ROW)
        for level, row in enumerate([*made, below])
        for number, package in enumerate(row)
    }
    lines = [
        _line(places[one.above], places[one.below], count)
        for one, count in sorted(found.items())
        if one.above not in below and one.below not in below
    ]
    boxes = [_box(package, place, is_errand=package in below) for package, place in places.items()]
    height = _TOP + len(made) * _ROW + _BOX[1] + _GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
            f'font-size="13" role="img" aria-label="The packages of app/ and their imports">',
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="{_GAP}" y="24" fill="#444444">app/: a line is "imports", thicker for more of them; the lowest '
            "row is used by nearly all</text>",
            *lines,
            *boxes,
            "</svg>",
            "",
        ]
    )


def _package(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def _across(number: int, count: int) -> float:
    return round(_WIDTH * (number + 0.5) / count, 1)


def _line(start: tuple[float, int], end: tuple[float, int], count: int) -> str:
    (x1, y1), (x2, y2) = start, end
    y1 += _BOX[1]
    middle = (y1 + y2) / 2
    width = min(5.0, 0.8 + count / 6)
    return (
        f'<path d="M{x1} {y1} C{x1} {middle} {x2} {middle} {x2} {y2}" fill="none" stroke="#8899aa" '
        f'stroke-width="{width:.1f}" opacity="0.55"/>'
    )


def _box(name: str, place: tuple[float, int], *, is_errand: bool) -> str:
    x, y = place
    width = _BOX[0] if not is_errand else 84
    fill = "#eeeeee" if is_errand else "#dbe9f6"
    return (
        f'<rect x="{x - width / 2:.1f}" y="{y}" width="{width}" height="{_BOX[1]}" rx="6" fill="{fill}" '
        f'stroke="#445566"/><text x="{x}" y="{y + 20}" text-anchor="middle" fill="#112233">{escape(name)}</text>'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(imports()))
