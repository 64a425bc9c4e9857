"""Runs the command: measures, prints, writes the section."""

from pathlib import Path
from typing import Any

from tools.bench import goals, results, servers
from tools.bench.report import console, say
from tools.bench.soak import section, verdict
from tools.bench.soak.measure import Wanted, measure
from tools.bench.soak.sample import Sample
from tools.bench.terminal import shown


def run(wanted: Wanted, file: Path | None, command: str) -> bool:
    """Measure; returns False if the lane failed or left a wrong table. A missed goal is only reported."""
    samples: list[Sample] = []

    def sampled(one: Sample) -> None:
        samples.append(one)
        results.emit(results.stamped("soak-sample", {**one.as_result()}))

    what: dict[str, Any] = {
        "messages": wanted.messages,
        "rate": wanted.rate,
        "every": wanted.every,
        "query": wanted.query,
    }
    say("starting Kafka and Postgres")
    with servers.running(wanted.stack) as up:
        say(f"{wanted.minutes:g} minutes at {wanted.rate} messages/s")
        fields = results.tried(what, lambda: measure(up, wanted, sampled))
    if "error" in fields:
        say(str(fields["error"]))
    judged = verdict.goals(samples, wanted.rate, has_state=wanted.query)
    result = results.stamped("soak", {**fields, "goals": [goal.as_result() for goal in judged]})
    results.emit(result)
    console.print(shown(goals.table(judged)))
    say("the table is right" if fields["correct"] else "WRONG: see above")
    if file:
        section.write(file, command, result, samples, judged)
        say(f"written: {file}")
    return bool(fields["correct"])
