"""What a death counts for: by how the worker ended, and by what the lane was doing."""

import datetime
import signal
from itertools import product

import pytest

from app.guard.evidence import Evidence, weigh
from app.model.activity import OWN_WORK, Activity
from app.model.death import Cause, Death

LANE = "orders"


def death(cause: Cause, detail: str, doing: Activity | None) -> Death:
    """As the supervisor reports it."""
    activities = {LANE: doing.value, "another": Activity.DECODE.value} if doing else {"another": "decode"}
    return Death(cause=cause, detail=detail, at=datetime.datetime.now(datetime.UTC), doing=activities)


@pytest.mark.parametrize(
    ("cause", "detail", "expected"),
    [
        (Cause.SIGNAL, "SIGSEGV", Evidence.FAILURE),
        (Cause.SIGNAL, "SIGABRT", Evidence.FAILURE),
        (Cause.EXIT, "status 3", Evidence.FAILURE),
        (Cause.HANG, "too long", Evidence.FAILURE),
        (Cause.SIGNAL, "SIGKILL", Evidence.UNEXPLAINED),
        (Cause.SIGNAL, "SIGTERM", Evidence.UNEXPLAINED),
        (Cause.SIGNAL, "SIGHUP", Evidence.UNEXPLAINED),
        (Cause.EXIT, "SparkGone", Evidence.UNEXPLAINED),
        (Cause.EXIT, "KeyError", Evidence.NOTHING),
        (Cause.OOM, "SIGKILL", Evidence.MEMORY),
    ],
)
@pytest.mark.parametrize("doing", sorted(OWN_WORK))
def test_by_how_it_ended(cause: Cause, detail: str, expected: Evidence, doing: Activity) -> None:
    assert weigh(death(cause, detail, doing), LANE) is expected


@pytest.mark.parametrize(
    ("doing", "cause"),
    list(product([Activity.FETCH, Activity.SERVER, None], [Cause.SIGNAL, Cause.EXIT, Cause.HANG])),
    ids=str,
)
def test_a_death_while_the_lane_waits_counts_for_nothing(doing: Activity | None, cause: Cause) -> None:
    assert weigh(death(cause, signal.Signals.SIGSEGV.name, doing), LANE) is Evidence.NOTHING


def test_no_report_is_unexplained() -> None:
    assert weigh(None, LANE) is Evidence.UNEXPLAINED
