"""Which tests an ordinary run leaves out; `--full-matrix` runs all.

Cases marked `full`; of an integration test that runs in several commit modes all but one, by turns (what the modes
promise is in `conformance/` and `crash/`, in each mode); and of the cases of a test marked `costly` all but some.
"""

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

from app.config.settings import CommitMode

Values = frozenset[tuple[str, int]]

_SAMPLED = Path(__file__).parent / "integration"


def left_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Of those that were collected."""
    out = set[pytest.Item]()
    costly = defaultdict[tuple[str, int], list[pytest.Item]](list)
    alike = defaultdict[tuple[str, Values], list[pytest.Item]](list)
    for item in items:
        name = item.nodeid.partition("[")[0]
        if item.get_closest_marker("full"):
            out.add(item)
        elif (mark := item.get_closest_marker("costly")) is not None:
            costly[name, mark.args[0]].append(item)
        elif item.path.is_relative_to(_SAMPLED) and (others := _without_mode(item)) is not None:
            alike[name, others].append(item)
    for (name, most), cases in costly.items():
        first = zlib.crc32(name.encode()) % len(cases)
        taken = {(first + turn * len(cases) // most) % len(cases) for turn in range(most)}
        out.update(case for place, case in enumerate(cases) if place not in taken)
    turns = Counter[str]()
    for (name, _), cases in alike.items():
        turns[name] += 1
        out.update(case for case in cases if case is not cases[(turns[name] + zlib.crc32(name.encode())) % len(cases)])
    return out


def _without_mode(item: pytest.Item) -> Values | None:
    """Its parameters but the commit mode, by their identity; None where it has no mode."""
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    others = frozenset((name, id(value)) for name, value in params.items() if not isinstance(value, CommitMode))
    return None if len(others) == len(params) else others
