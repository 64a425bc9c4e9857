"""Time from the checkpoint entry of a burst's last epoch until the epoch is visible; no epoch follows it.

burst sent ... epochs ... Spark writes commits/N of the last one ........ first poll that sees it
                                    |------------- measured -----------------|
"""

import time
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from tools.bench.latency import LOOK_SECONDS, quantiles
from tools.bench.page import Goal, Section, Table
from tools.bench.report import Measure, in_rounds
from tools.bench.results import Result, Task, state
from tools.bench.summary import cell
from tools.bench.trial import Trial, trial
from tools.peers import lane
from tools.peers.child import SystemFailed
from tools.peers.lane import END, RUNNING, TWO_PHASE
from tools.peers.systems import LANES
from tools.testbed.servers import LEDGER_SCHEMA, Servers
from tools.testbed.tables import BEGIN_MICROS
from tools.testbed.topic import PROMPT, Send, filling
from tools.testbed.workload import Shape, Workload, key_of, value_of

TOPIC = "bench.burst"
SHAPE = Shape(called="burst", most_rows=100_000)
#: milliseconds, in the worst burst
LIMIT_MILLISECONDS = 300.0
#: bursts that are sent first and not counted, while Spark compiles and the JVM warms up
WARM_UP_BURSTS = 5
#: seconds without messages before each burst
IDLE_SECONDS = 0.5
_NEWEST = f"select epoch from {LEDGER_SCHEMA}.ledger order by generation desc, epoch desc limit 1"
_COLUMNS = (
    ("run", cell("run")),
    ("after the entry: p50 ms", cell("hidden_milliseconds", "p50")),
    ("p90", cell("hidden_milliseconds", "p90")),
    ("worst", cell("hidden_milliseconds", "max")),
    ("first message to last visible: p50 ms", cell("whole_milliseconds", "p50")),
    ("worst", cell("whole_milliseconds", "max")),
    ("table", state),
)


def of_bursts(size: int, bursts: int) -> Measure:
    """Of bench-burst."""
    what = {"messages": size * bursts, "size": size, "bursts": bursts}
    tasks = in_rounds(lambda up: [Task("burst", what, partial(measure, up, size, bursts))])
    return Measure("burst", tasks, lambda done: [section(done)])


def section(done: Sequence[Result]) -> Section:
    what = "last epoch of a burst visible after its checkpoint entry, worst"
    worst = [one["hidden_milliseconds"]["max"] if one["correct"] else None for one in done]
    goals = [Goal(what, LIMIT_MILLISECONDS, found, "ms") for found in worst]
    table = Table.of("Bursts", _COLUMNS, done)
    return Section("burst", "The end of a burst", [table], goals)


def measure(servers: Servers, size: int, bursts: int) -> dict[str, Any]:
    """Measure the bursts; returns the fields of a result."""
    servers.empty_topic(TOPIC)
    workload = Workload(SHAPE, size * (WARM_UP_BURSTS + bursts))
    messages = (
        (value_of(change, ordinal, BEGIN_MICROS + ordinal * 1000), key_of(change))
        for ordinal, change in enumerate(workload)
    )
    with (
        trial(servers, LANES[TWO_PHASE], TOPIC, SHAPE.ddl, LOOK_SECONDS) as one,
        filling(servers.bootstrap, TOPIC, PROMPT) as send,
    ):
        one.until(RUNNING, "the lane")
        ends = range(size, size * (WARM_UP_BURSTS + bursts) + 1, size)
        for end in ends[:WARM_UP_BURSTS]:
            _once(one, send, list(islice(messages, size)), end)
        start = one.snapshot()
        found = [_once(one, send, list(islice(messages, size)), end) for end in ends[WARM_UP_BURSTS:]]
        used = one.snapshot().since(start)
        ended = one.end(one.reaches(SHAPE.made, workload.expected()))
    hidden, whole = np.array(found).T * 1000
    return {
        "hidden_milliseconds": quantiles(hidden, ""),
        "whole_milliseconds": quantiles(whole, ""),
        "each_hidden_milliseconds": [round(float(one), 1) for one in hidden],
        **used,
        **ended,
    }


def _once(one: Trial, send: Send, messages: Sequence[tuple[str, str]], end: int) -> tuple[float, float]:
    """Send a burst, `end` is the offset after it; returns seconds until its last epoch is visible: since the checkpoint
    entry, and since the send."""
    time.sleep(IDLE_SECONDS)
    begin = time.time()
    for value, key in messages:
        send(value, key)
    one.until(lambda: (one.answer(END, TOPIC) or 0) >= end, "a burst")
    seen = time.time()
    return seen - _entry_at(int(one.answer(_NEWEST) or 0)), seen - begin


def _entry_at(epoch: int) -> float:
    """When `commits/N` of this epoch was written, in seconds since 1970."""
    found = list(lane.checkpoint().rglob(f"commits/{epoch}"))
    if len(found) != 1:
        raise SystemFailed(f"epoch {epoch} has {len(found)} entries in the checkpoint")
    return found[0].stat().st_mtime_ns / 1e9
