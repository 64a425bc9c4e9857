"""The sections of the page on costs."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.bench import goals, page
from tools.bench.costs.axes import BASE_EPOCH, BASE_EPOCH_BYTES, Axis, Case
from tools.bench.costs.measure import WARM_SHARE
from tools.bench.costs.verdict import CEILINGS, DRIVER_BASE, DRIVER_TIMES, FIGURES, JVM_LIMIT, LIMIT, Growth
from tools.bench.goals import Goal
from tools.bench.lane import PARTS
from tools.bench.page import Section, Table
from tools.bench.results import QUIET_LOAD, disturbance
from tools.bench.short import state

_COLUMNS = ("messages", "bytes a message", "epochs", "messages/s", "CPU µs a message", "CPU ms a MB")
_BY_CEILING = ("ceiling: messages/s", "its CPU µs a message", "its CPU ms a MB")
_OTHERS = (*(f"{part} MB" for part in PARTS), "others' load", "table")


def axis(one: Axis, done: Mapping[Case, Mapping[str, Any]]) -> Table:
    rows = [(f"{size:,}", *_row(done[case], has_ceiling=one.has_ceiling)) for size, case in one.cases.items()]
    by_ceiling = _BY_CEILING if one.has_ceiling else ()
    return Table(title="Sizes", columns=(one.name, *_COLUMNS, *by_ceiling, *_OTHERS), rows=rows)


def write(file: Path, command: str, axes: Mapping[str, tuple[Growth, Sequence[Table]]]) -> None:
    """Write a common section, and a section for each of these axes."""
    common = [
        "Mode two-phase. One thing is varied at a time, around 1,000,000 messages of 792 bytes for one table of 6 "
        "columns in epochs of the default size, which each axis states; where messages are longer, there are fewer of "
        "them. CPU is that of all "
        f"processes (lane, Postgres, broker) from the moment when {WARM_SHARE:.0%} of the messages were visible: what "
        "one more costs, start and warm-up left out. MB: the most that each process has held. A row is WRONG when "
        "the table is not what the changes fold to, when something is left prepared, or the exit status is not 0. The "
        "ceiling: what the server takes alone, broker's idling included, for the same rows in chunks as large as the "
        "epochs, folded and sorted before, by COPY and one upsert each, from the first chunk on. Whole-columns: "
        "columns once more, in tables whose rows stay in one piece, as `surelane doctor` advises for them.",
        f"Linear: at most {LIMIT:g} times as dear at a larger size as at a smaller one; where the ceiling grows by "
        "more than that between the same two sizes, and is below the lane, no more than it does. Memory with rows of "
        f"100 KB: the driver at most {DRIVER_BASE} MB and {DRIVER_TIMES} times `epoch.max_bytes`, the JVM {JVM_LIMIT} "
        "MB.",
    ]
    page.put(file, Section(key="costs", title="What a message costs", command=command, parts=common))
    for name, (grown, tables) in axes.items():
        summary = f"{grown.sentence[0].upper()}{grown.sentence[1:]} Epochs of {BASE_EPOCH:,} messages "
        summary += f"and {BASE_EPOCH_BYTES >> 20} MB at most, unless stated otherwise."
        parts = [summary, *[one.markdown() for one in tables]]
        title = f"What a message costs, by {name}"
        page.put(file, Section(key=f"costs-{name}", title=title, command=command, parts=parts))


def guard_tables(ratios: Mapping[str, Sequence[float]], shares: Mapping[str, float], judged: Goal) -> list[Table]:
    """Tables of the pairs, of the timed parts, and of the goal."""
    paired = [
        (name, str(len(found)), *(f"{value:.3f}" for value in (statistics.median(found), min(found), max(found))))
        for name, found in ratios.items()
        if found
    ]
    timed = [(part, f"{share:.2f}") for part, share in shares.items()]
    return [
        Table(title="With the guard to without it", columns=("ratio", "pairs", "median", "least", "most"), rows=paired),
        Table(title="Timed", columns=("part", "% of all CPU seconds after the start"), rows=timed),
        goals.table([judged]),
    ]


def write_guard(file: Path, command: str, done: Sequence[Mapping[str, Any]], tables: Sequence[Table]) -> None:
    wrong = [state(one) for one in done if not one["correct"]]
    parts = [
        f"{done[0]['messages']:,} messages a drain, epochs of {done[0]['epoch_messages']:,}, mode two-phase with the "
        "guard and with `guard.enabled: false`, in turn; each ratio is of one pair, of what was used after a quarter "
        "of the messages, all processes and the servers together. Two equal drains differ by more than what is asked "
        "for, so the pairs judge nothing. In one more drain each call of the functions of all three is timed (CPU time "
        "of the thread, `tools/bench/metered`), with /metrics read each second, and the server's processes for the "
        "connections of guard and metrics, as far as five looks a second find them; accounting is the arithmetic of "
        "counts, their columns in the ledger's row have no cost that could be measured alone. The goal is their sum.",
        f"Tables: {'all right' if not wrong else ', '.join(wrong)}.",
        *[one.markdown() for one in tables],
    ]
    page.put(
        file, Section(key="guard", title="What the guard, accounting and metrics cost", command=command, parts=parts)
    )


def _row(result: Mapping[str, Any], *, has_ceiling: bool) -> tuple[str, ...]:
    alone = (_number(result.get("ceiling_rate")), *[_number(result.get(name), 1) for name in CEILINGS.values()])
    each = result["value_bytes"] / result["messages"] if "value_bytes" in result else None
    peaks = result.get("peak_megabytes", {})
    load = disturbance(result) if "other_load" in result else None
    return (
        f"{result['messages']:,}",
        _number(each),
        _number(result.get("epochs")),
        _number(result.get("rate")),
        *[_number(result.get(figure), 1) for figure in FIGURES.values()],
        *(alone if has_ceiling else ()),
        *[_number(peaks.get(part)) for part in PARTS],
        "" if load is None else f"{load:.1f}" + (", noisy" if load > QUIET_LOAD else ""),
        state(result),
    )


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
