"""The section of the page on a soak, and its picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.bench import goals, lines, page
from tools.bench.goals import Goal
from tools.bench.lane import PARTS
from tools.bench.page import Section, Table
from tools.bench.soak.sample import Sample
from tools.bench.soak.verdict import GROWTH_LIMITS, second_half

_LANE, _QUERY = ("soak", "Under load for long"), ("soak-query", "A query under load for long")


def write(
    file: Path, command: str, result: Mapping[str, Any], samples: Sequence[Sample], judged: Sequence[Goal]
) -> None:
    """Write the section, and its picture to the page's folder."""
    state = "right" if result["correct"] else "WRONG"
    key, title = _QUERY if result.get("query") else _LANE
    table = "counts by ten seconds and 10,000 keys" if result.get("query") else "of 100,000 rows at most"
    parts = [
        f"{result['messages']:,} messages at {result['rate']:,} messages/s, mode two-phase; a look every "
        f"{result['every']:g} s, the lag every half second. The table, {table}: {state}; prepared "
        f"transactions left: {result.get('prepared_left', 'not known')}. {result.get('error', '')}".rstrip(),
        goals.table(judged).markdown(),
        "Growth is the median slope between all pairs of samples of the second half (Theil and Sen), of PSS; in a "
        f"shorter run than two times ten minutes it is not judged. {_limits()}",
    ]
    if samples:
        parts += [_held(samples).markdown(), f"![memory by process]({key}.svg)"]
        file.parent.mkdir(parents=True, exist_ok=True)
        minutes = [one.seconds / 60 for one in samples]
        drawn = {part: [one.pss[part] for one in samples] for part in PARTS}
        (file.parent / f"{key}.svg").write_text(lines.picture("MB by process (PSS)", minutes, drawn))
    page.put(file, Section(key=key, title=title, command=command, parts=parts))


def _limits() -> str:
    limits = ", ".join(f"{part} {limit:g}" for part, limit in GROWTH_LIMITS.items())
    return f"Limits of memory, MB an hour: {limits}."


def _held(samples: Sequence[Sample]) -> Table:
    places = {"first": samples[0], "middle": second_half(samples)[0], "last": samples[-1]}
    rows = [
        (
            name,
            f"{one.seconds / 60:.1f}",
            *(f"{one.pss[part]:.0f}" for part in PARTS),
            f"{sum(one.threads.values())}",
            f"{sum(one.files.values())}",
            f"{one.checkpoint_files}",
            f"{one.ledger_rows:,} ({one.ledger_megabytes:.1f} MB)",
            f"{one.guard_megabytes:.1f}",
            f"{one.table_megabytes:.0f}",
        )
        for name, one in places.items()
    ]
    columns = (
        *("sample", "minute", *(f"{part} MB" for part in PARTS), "threads", "files"),
        *("checkpoint files", "ledger rows", "guard MB", "table MB"),
    )
    return Table(title="What it held", columns=columns, rows=rows)
