"""Writes the results as a page of the docs, with a picture."""

import datetime
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tools.bench.peers import chart, report, rows, summary
from tools.bench.peers.rows import Table
from tools.bench.peers.system import System

PICTURE = "benchmarks.svg"
_GIGABYTE = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Place:
    """Command, sizes and server version of the measurement."""

    command: str
    messages: Sequence[int]
    runs: int
    #: seconds at each rate; 0: latency was not measured
    seconds: int
    #: the server's version
    postgres: str


def write(file: Path, done: Sequence[Mapping[str, Any]], place: Place) -> None:
    """Write the page to `file` and the picture to the same folder."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text(done, place))
    (file.parent / PICTURE).write_text(chart.rates(summary.drains(done)))


def text(done: Sequence[Mapping[str, Any]], place: Place) -> str:
    systems = dict.fromkeys(System(result["system"]) for result in done)
    parts = [
        "# Benchmarks",
        f"Written by `{place.command}`; to be written anew, not edited.",
        _machine(place),
        f"![messages/s of each system]({PICTURE})",
        *[_markdown(table) for table in report.tables(done)],
        _markdown(rows.elsewhere()),
        "## What is compared",
        "\n".join(f"- `{one}`: {one.described}" for one in systems),
        _METHOD + _again(done),
    ]
    return "\n\n".join(parts) + "\n"


_METHOD = """## How

- In each run all systems drain the same topic into a fresh table of a fresh database, one after the other; each run
  begins with another one. The topic has one partition, Debezium's JSON without schema, 792 bytes a message with
  before and after; 60 % updates, 35 % inserts, 5 % deletes. `hot` is the same over 1,000 keys by Zipf's law.
- One clock for all: another connection looks at the table every 20 ms. **messages/s** goes from the first look that
  found rows to the first that found the last message's row; what was there at the first look is not counted. **From
  process start** counts all messages, and with them the start of Java, Python and Spark. What a
  system had read ahead by the first look is in favour of the first figure; the second one has everything.
- **CPU** is that of all processes, from process start to the last message's row: the system's own, Postgres', the
  broker's. **After the start**: what was used after the first look that found rows, by the messages that came after it.
- The table is compared with what the changes fold to: its rows, and one hash over all of them. A run that ends with
  another table is WRONG and not counted, whatever its rate; nothing is judged by a system that was wrong once.
- Goals are judged by the worst of the medians: of each number of messages, from the first row and from process start.
- The others have the fastest of the settings that were tried. Flink's table: 5,000 rows a buffer, rewritten batches, a
  checkpoint each second. Flink over XA: what Flink has of it is one statement, run row by row; here an operator written
  for this page collects 5,000 rows, which one MERGE takes as arrays and looks up by their key. Debezium: batches of
  5,000, of each key the last change only, rewritten batches, the schema sent to the worker once. Surelane: its
  defaults.
- `ceiling` is no system: one connection, rows that are ready, folded and sorted; a COPY into an unlogged table, one
  MERGE in the order of the keys and one DELETE for each 50,000, 100,000 or 250,000 messages, the best of the three,
  after a round that only warms up. It reads nothing and decides nothing, and has both cores for itself.
- What favours whom: from process start a short backlog favours who starts fast, a long one who drains fast. Systems
  that write rows by the batch show the first ones early, Surelane an epoch as a whole. Everything on one machine, with
  no distance between a system and Postgres, favours systems with many round trips.
- Latency: changes at a steady rate, each with the time at which it was sent. What counts is when a look (every 2 ms)
  finds the inserted row. Flink's table writes when its buffer is 1 s old (its default), Flink over XA with each
  checkpoint.
- Others' load: how many processors others kept busy, or the host of this virtual machine kept back, in the worst of the
  runs; noisy above a tenth."""


def _again(done: Sequence[Mapping[str, Any]]) -> str:
    again = sum(result.get("attempts", 1) > 1 for result in done)
    if not again:
        return ""
    return (
        f"\n- Of {len(done)} measurements {again} were disturbed by more than a quarter of a processor and made again, "
        f"twice at most; the quietest counts."
    )


def _machine(place: Place) -> str:
    today = datetime.datetime.now(datetime.UTC)
    memory = psutil.virtual_memory().total / _GIGABYTE
    counts = " and ".join(f"{count:,}" for count in place.messages)
    held = f", latency for {place.seconds} s at each rate" if place.seconds else ""
    return (
        f"{today:%Y-%m-%d}, one machine with {os.cpu_count()} cores ({platform.machine()}), {memory:.0f} GB, "
        f"Python {platform.python_version()}, {place.postgres}. Everything runs on it: broker, Postgres (fsync on), "
        f"the measured system, and the one who looks. {counts} messages a backlog, {place.runs} runs{held}. "
        "Absolute figures belong to this machine and hour; ratios are of the same runs."
    )


def _markdown(table: Table) -> str:
    rows = [_row(table.columns), _row(["---"] * len(table.columns)), *[_row(row) for row in table.rows]]
    return "\n".join([f"## {table.title}", "", *rows])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
