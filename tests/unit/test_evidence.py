"""What a death counts for: by how the worker ended, and by what the lane was doing."""

import datetime
import signal
from itertools import product

import pytest

from app.model.activity import OWN_WORK, Activity
from app.model.death import Cause, Death
from app.poison.death_evidence import DeathEvidence, weigh

LANE = "orders"


def death(cause: Cause, detail: str, doing: Activity | None) -> Death:
    """As the supervisor reports it."""
    activities = {LANE: doing.value, "another": Activity.DECODE.value} if doing else {"another": "decode"}
    return Death(cause=cause, detail=detail, at=datetime.datetime.now(datetime.UTC), doing=activities)


@pytest.mark.parametrize(
    ("cause", "detail", "expected"),
    [
        (Cause.SIGNAL, "SIGSEGV", DeathEvidence.FAILURE),
        (Cause.SIGNAL, "SIGABRT", DeathEvidence.FAILURE),
        (Cause.EXIT, "status 3", DeathEvidence.FAILURE),
        (Cause.HANG, "too long", DeathEvidence.FAILURE),
        (Cause.SIGNAL, "SIGKILL", DeathEvidence.UNEXPLAINED),
        (Cause.SIGNAL, "SIGTERM", DeathEvidence.UNEXPLAINED),
        (Cause.SIGNAL, "SIGHUP", DeathEvidence.UNEXPLAINED),
        (Cause.EXIT, "SparkGone", DeathEvidence.UNEXPLAINED),
        (Cause.EXIT, "KeyError", DeathEvidence.NOTHING),
        (Cause.OOM, "SIGKILL", DeathEvidence.MEMORY),
    ],
)
@pytest.mark.parametrize("doing", sorted(OWN_WORK))
def test_by_how_it_ended(cause: Cause, detail: str, expected: DeathEvidence, doing: Activity) -> None:
    assert weigh(death(cause, detail, doing), LANE) is expected


@pytest.mark.parametrize(
    ("doing", "cause"),
    list(product([Activity.FETCH, Activity.SERVER, None], [Cause.SIGNAL, Cause.EXIT, Cause.HANG])),
    ids=str,
)
def test_a_death_while_the_lane_waits_counts_for_nothing(doing: Activity | None, cause: Cause) -> None:
    assert weigh(death(cause, signal.Signals.SIGSEGV.name, doing), LANE) is DeathEvidence.NOTHING


def test_no_report_is_unexplained() -> None:
    assert weigh(None, LANE) is DeathEvidence.UNEXPLAINED
