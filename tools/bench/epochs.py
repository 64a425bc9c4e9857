"""Parses the `epoch` lines of the lane's JSON log, with the duration of each step."""

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Self


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """One epoch line of the log."""

    number: int
    #: when it was begun and when it was visible, seconds since 1970
    began: float
    at: float
    messages: int
    #: offset after its last message, of a lane with one topic of one partition
    end: int
    #: milliseconds by step
    steps: Mapping[str, float]
    #: milliseconds by activity of the stage process, a part of `stage` where nothing was staged ahead
    staging: Mapping[str, float]

    @classmethod
    def parse(cls, line: str) -> Self | None:
        """Parse a line of the log; None unless it is an `epoch` event."""
        if not line.startswith("{") or (event := json.loads(line)).get("event") != "epoch":
            return None
        ends = [offset for partitions in event.get("end", {}).values() for offset in partitions.values()]
        return cls(
            number=event["epoch"],
            began=seconds_of(event["began"]),
            at=seconds_of(event["timestamp"]),
            messages=event.get("consumed", 0),
            end=max(ends, default=0),
            steps=event["ms"],
            staging=event.get("stage_ms", {}),
        )


def seconds_of(text: str) -> float:
    """Of a time in ISO format, since 1970."""
    return datetime.datetime.fromisoformat(text).timestamp()


def mean_steps(epochs: Sequence[Epoch]) -> dict[str, float]:
    """Mean milliseconds of an epoch by step; `between` is the time outside of all steps, mostly Spark's logs."""
    if len(epochs) < 2:
        return {}
    names = dict.fromkeys(name for epoch in epochs for name in epoch.steps)
    means = {name: fmean(epoch.steps.get(name, 0.0) for epoch in epochs) for name in names}
    period = (epochs[-1].at - epochs[0].at) * 1000 / (len(epochs) - 1)
    means["between"] = period - sum(means.values())
    return {name: round(milliseconds, 1) for name, milliseconds in means.items()}
