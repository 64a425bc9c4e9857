"""The demo's promises, each with a check. A check that fails makes the demo fail."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.model.counts import Counts
from tools.demo.compare import Comparison
from tools.demo.crash import Crash
from tools.demo.ending import DemoEnding
from tools.demo.history import HistoryResult
from tools.demo.play import DemoView
from tools.demo.queries import QueryResult
from tools.demo.recovery import DemoRecovery
from tools.demo.snapshots import SnapshotReader
from tools.demo.watch import SeenEpoch


@dataclass(frozen=True, kw_only=True)
class DemoCheck:
    promise: str
    ok: bool
    found: str


def checks(seen: DemoView) -> tuple[DemoCheck, ...]:
    epochs = seen.onlookers.watch.epochs
    return (
        identical(seen.comparisons),
        _crashed(seen.crash),
        _recovered(seen.crash, seen.recovery),
        whole_epochs(seen.onlookers.snapshots),
        _accounted(epochs),
        _continuous(epochs, seen.ending),
        _settled(seen.ending),
        _money(seen.ending),
        *(() if seen.queries is None else _queries(seen.queries)),
    )


def _queries(found: QueryResult) -> tuple[DemoCheck, ...]:
    windows = f"{found.rows:,} rows of {len(found.windows)} windows, {found.orders:,} orders"
    differing = f"; {found.differing:,} rows differ" if found.differing else ", as Postgres computes them at once"
    is_equal = not found.groups_differing and found.groups > 0
    groups = f"{found.groups:,} customers"
    other = f"; {found.groups_differing:,} groups differ" if found.groups_differing else ", as the source's rows give"
    return (
        DemoCheck(
            promise="The query, killed too, equals the batch",
            ok=not found.differing and found.rows > 0,
            found=windows + differing,
        ),
        DemoCheck(
            promise="The rollup equals the source",
            ok=is_equal,
            found=groups + other,
        ),
        _history(found.history),
    )


def _history(found: HistoryResult) -> DemoCheck:
    versions = f"{found.versions:,} versions of {found.orders:,} orders"
    other = ", as the topic's changes give, the last one of each epoch"
    if found.differing:
        other = f"; {found.differing:,} versions differ"
    is_equal = not found.differing and found.versions > found.orders > 0
    return DemoCheck(promise="The history has each version", ok=is_equal, found=versions + other)


def all_counts(epochs: Iterable[SeenEpoch]) -> Counts:
    """Sum of the counts of all epochs."""
    by_epoch = [epoch.counts.as_dict() for epoch in epochs]
    return Counts(**{name: sum(counts[name] for counts in by_epoch) for name in Counts().as_dict()})


def identical(comparisons: Sequence[Comparison]) -> DemoCheck:
    different = [one for one in comparisons if not one.equal]
    rows = sum(one.source.rows for one in comparisons)
    found = f"{len(comparisons)} tables, {rows:,} rows, equal hashes"
    if different:
        found = "; ".join(f"{one.table} differs, for example at {' and '.join(one.differing)}" for one in different)
    return DemoCheck(promise="Target and source are identical", ok=not different, found=found)


def whole_epochs(snapshots: SnapshotReader) -> DemoCheck:
    found = f"{snapshots.taken:,} snapshots of a concurrent reader, none showed part of an epoch"
    if snapshots.partial:
        where = ", ".join(f"{table} in {count}" for table, count in snapshots.partial.items())
        found = f"of {snapshots.taken:,} snapshots some showed part of an epoch: {where}"
    ok = snapshots.taken > 0 and not snapshots.partial
    return DemoCheck(promise="A reader sees whole epochs or nothing", ok=ok, found=found)


def _crashed(crash: Crash) -> DemoCheck:
    state = f"{crash.lag:,} messages were not applied"
    if crash.in_doubt:
        state += f", {' and '.join(crash.in_doubt)} was prepared and in doubt"
    return DemoCheck(promise="The lane was killed in the middle of its work", ok=crash.lag > 0, found=state)


def _recovered(crash: Crash, recovery: DemoRecovery) -> DemoCheck:
    ok = recovery.generation > crash.generation
    found = f"generation {recovery.generation}, first epoch after {recovery.first_epoch_seconds:.1f} s, " + (
        f"caught up after {recovery.caught_up_seconds:.1f} s"
    )
    return DemoCheck(promise="Started again, it recovered and caught up", ok=ok, found=found)


def _accounted(epochs: Sequence[SeenEpoch]) -> DemoCheck:
    counts = all_counts(epochs)
    parts = {name: count for name, count in counts.as_dict().items() if name != "consumed"}
    found = f"{counts.consumed:,} consumed = {' + '.join(f'{count:,} {name}' for name, count in parts.items())}"
    ok = counts.adds_up and all(epoch.counts.adds_up for epoch in epochs)
    return DemoCheck(promise="Every message is accounted for", ok=ok, found=found)


def _continuous(epochs: Sequence[SeenEpoch], ending: DemoEnding) -> DemoCheck:
    """Check that each epoch starts where the one before ended, the first at offset 0, the last at the topic's end.

    Offsets of this topic have no gaps (no transactional producer), so numbers of messages and offsets are comparable.
    """
    applied = [epoch for epoch in epochs if not epoch.counts.duplicate]
    gaps = [after.epoch for before, after in pairwise(applied) if after.start != before.end]
    complete = applied[0].start == 0 and ending.position == ending.topic_end == all_counts(applied).consumed
    found = f"{len(epochs):,} epochs in one unbroken chain from offset 0 to {ending.topic_end:,}, the end of the topic"
    if gaps or not complete:
        found = f"gaps before epochs {gaps}; the ledger ends at {ending.position:,}, the topic at {ending.topic_end:,}"
    return DemoCheck(promise="Nothing lost, nothing applied twice", ok=not gaps and complete, found=found)


def _settled(ending: DemoEnding) -> DemoCheck:
    ok = ending.state == "stopped" and not ending.in_doubt
    left = ", ".join(ending.in_doubt) or "none"
    return DemoCheck(
        promise="Stopped in good order", ok=ok, found=f"state {ending.state}, prepared transactions left: {left}"
    )


def _money(ending: DemoEnding) -> DemoCheck:
    ok = len(set(ending.money)) == 1
    found = f"accounts, tellers, branches and history of pgbench all sum up to {ending.money[0]:,}"
    if not ok:
        found = f"sums of accounts, tellers, branches, history: {', '.join(f'{amount:,}' for amount in ending.money)}"
    return DemoCheck(promise="The books balance at the target", ok=ok, found=found)
