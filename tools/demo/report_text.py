"""The figures as text, for the terminal and the page."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tools.demo.crash import Crash
from tools.demo.outcome import DemoOutcome, Figures, Latency
from tools.demo.recovery import DemoRecovery


@dataclass(frozen=True, kw_only=True)
class Moment:
    """An event of the demo; `at` is in seconds since the load began."""

    at: float
    words: str


def load(figures: Figures) -> str:
    return (
        f"{figures.pgbench:,} transactions of pgbench and {sum(figures.shop.values()):,} of the shop"
        f" at the source in {figures.seconds_of_load:.0f} s"
    )


def shop(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in kinds.items())


def messages(figures: Figures) -> str:
    plans = ", ".join(f"{count:,} {plan}" for plan, count in figures.plans.items())
    return f"{figures.counts.consumed:,} in {figures.epochs:,} epochs ({plans})"


def latency(found: Latency) -> str:
    if found.p50 is None or found.p99 is None or found.worst is None:
        return "not measured"
    return f"p50 {seconds(found.p50)}, p99 {seconds(found.p99)}, worst {seconds(found.worst)}"


def seconds(value: float | None) -> str:
    """Below one second in milliseconds; "-" for None."""
    if value is None:
        return "-"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def in_work(crash: Crash) -> str:
    """The lane's state when it was killed."""
    doubt = f", {' and '.join(crash.in_doubt)} prepared" if crash.in_doubt else ""
    decided = "decided" if crash.decided else "not decided"
    return f"SIGKILL in epoch {crash.planned} ({decided}{doubt}), {crash.lag:,} messages behind"


def recovery(found: DemoRecovery) -> str:
    return (
        f"ready after {found.start_seconds:.1f} s, first epoch visible after {found.first_epoch_seconds:.1f} s,"
        f" caught up after {found.caught_up_seconds:.1f} s"
    )


def settled(found: DemoRecovery) -> str:
    """What the start did with the transactions in doubt."""
    ends = (f"{one.gid}: {one.decision.replace('_', ' ')}, because {one.because}" for one in found.settled)
    return "; ".join(ends) or "nothing was in doubt"


def epochs(count: int) -> str:
    return "1 epoch" if count == 1 else f"{count:,} epochs"


def replayed(found: DemoRecovery) -> str:
    messages = f"{found.replayed_messages:,} messages, {found.duplicates:,} of them applied already"
    return f"{epochs(found.replayed_epochs)}, {messages}"


def machine(outcome: DemoOutcome) -> str:
    """The machine and its load before the demo."""
    return (
        f"Clients, Kafka, Debezium, Spark and two Postgres {outcome.postgres} servers shared {os.cpu_count()} cores"
        f" (load average before the demo: {outcome.load_before:.1f})."
    )


def story(outcome: DemoOutcome) -> tuple[Moment, ...]:
    """The events of the demo, in order."""
    line, back = outcome.timeline, outcome.recovery
    moments = (
        (0.0, "pgbench and the shop begin to work at the source; the lane has applied Debezium's snapshot of it."),
        (line.killed, f"{in_work(outcome.crash)}. A new process is started at once."),
        (
            line.killed + back.start_seconds,
            f"It has settled what was in doubt ({settled(back)}) and goes on: {back.decision}.",
        ),
        (line.first_epoch, f"Its first epoch is visible, generation {back.generation}. Replayed: {replayed(back)}."),
        (line.caught_up, "It is no further behind than before the crash."),
        (line.load_ended, "The clients stop."),
        (line.seconds, "Everything is applied; then SIGTERM, and the comparison."),
    )
    return tuple(Moment(at=at, words=words) for at, words in moments)
