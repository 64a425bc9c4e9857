"""Which tests an ordinary run leaves out; `--full-matrix` runs all.

Cases marked `full`; of an integration test that runs in several commit modes all but one, by turns (what the modes
promise is in `conformance/` and `crash/`, in each mode); of the cases of a test marked `costly` all but some; and with
a turn, which `./run test` takes from the commit, of the other tests that start a lane three of four.
"""

import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from app.config.settings import CommitMode

Values = frozenset[tuple[str, int]]

_SAMPLED = Path(__file__).parent / "integration"
_BY_TURNS = (_SAMPLED, Path(__file__).parent / "crash", Path(__file__).parent / "system")
#: of so many commits each test runs in one
TURNS = 4
#: fixtures of a test that takes seconds: it starts a lane, a browser or a benchmark, or Spark computes for it
_SLOW = frozenset({"lane", "lane_process", "cluster", "lost", "spark", "windows", "stack_name", "with_queries"})


def left_out(items: Sequence[pytest.Item], turn: int | None = None) -> set[pytest.Item]:
    """Of those that were collected. `turn`: below TURNS; None for tests that were named one by one."""
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
        taken = {(first + number * len(cases) // most) % len(cases) for number in range(most)}
        out.update(case for place, case in enumerate(cases) if place not in taken)
    turns = Counter[str]()
    for (name, _), cases in alike.items():
        turns[name] += 1
        out.update(case for case in cases if case is not cases[(turns[name] + zlib.crc32(name.encode())) % len(cases)])
    return out if turn is None else out | _of_other_turns((item for item in items if item not in out), turn)


def _of_other_turns(items: Iterable[pytest.Item], turn: int) -> set[pytest.Item]:
    """Of each file another part in each turn."""
    places = Counter[Path]()
    out = set[pytest.Item]()
    for item in items:
        if item.get_closest_marker("costly") or not any(item.path.is_relative_to(folder) for folder in _BY_TURNS):
            continue
        names = set(item.fixturenames) if isinstance(item, pytest.Function) else set[str]()
        if "bare_lane" in names:
            names.discard("lane")  # there it is a bare one, which takes milliseconds
        if names & _SLOW:
            if (places[item.path] + zlib.crc32(item.path.name.encode())) % TURNS != turn:
                out.add(item)
            places[item.path] += 1
    return out


def _without_mode(item: pytest.Item) -> Values | None:
    """Its parameters but the commit mode, by their identity; None where it has no mode."""
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    others = frozenset((name, id(value)) for name, value in params.items() if not isinstance(value, CommitMode))
    return None if len(others) == len(params) else others
