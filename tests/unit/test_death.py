"""How a worker died, by what is known of its end."""

import signal
from pathlib import Path

import pytest

from app.errors import ExitStatus
from app.model.death import Cause
from app.oom import oom_kills
from app.supervisor.worker_life import death_of

KILLED = -signal.SIGKILL
FINAL = sorted(set(ExitStatus) - {ExitStatus.BUG})


@pytest.mark.parametrize("status", FINAL)
def test_an_error_the_worker_knows_is_no_death(status: ExitStatus) -> None:
    assert death_of(status, failure="SomeError", hang=None, killed_for_memory=False) is None


@pytest.mark.parametrize(
    ("status", "failure", "hang", "memory", "cause", "detail", "label"),
    [
        (KILLED, None, None, False, Cause.SIGNAL, "SIGKILL", "SIGKILL"),
        (-signal.SIGSEGV, None, None, True, Cause.SIGNAL, "SIGSEGV", "SIGSEGV"),
        (-int(signal.SIGRTMIN) - 1, None, None, False, Cause.SIGNAL, f"signal {int(signal.SIGRTMIN) + 1}", None),
        (KILLED, None, None, True, Cause.OOM, "SIGKILL", "oom"),
        (ExitStatus.ENVIRONMENT, "SparkGone", None, False, Cause.EXIT, "SparkGone", "SparkGone"),
        (ExitStatus.ENVIRONMENT, "SparkGone", None, True, Cause.OOM, "SparkGone", "oom"),
        (ExitStatus.BUG, "KeyError", None, False, Cause.EXIT, "KeyError", "KeyError"),
        (ExitStatus.BUG, None, None, False, Cause.EXIT, "status 1", "status 1"),
        (134, None, None, True, Cause.EXIT, "status 134", "status 134"),
        (KILLED, None, "too long", False, Cause.HANG, "too long", "hang"),
    ],
)
def test_a_death_is_named(
    status: int, failure: str | None, hang: str | None, memory: bool, cause: Cause, detail: str, label: str | None
) -> None:
    death = death_of(status, failure=failure, hang=hang, killed_for_memory=memory)
    assert death is not None
    assert (death.cause, death.detail, death.label) == (cause, detail, label or detail)
    assert detail in str(death)


def test_a_worker_that_ended_before_the_watchdog_struck_did_not_hang() -> None:
    assert death_of(ExitStatus.OK, failure=None, hang="too long", killed_for_memory=False) is None


def test_the_kernels_counter_is_read_where_it_is(tmp_path: Path) -> None:
    own, group = tmp_path / "cgroup", tmp_path / "cgroups" / "some" / "group"
    machine = tmp_path / "vmstat"
    assert oom_kills(own, tmp_path / "cgroups", machine) is None
    own.write_text("4:memory:/other\n0::/some/group\n")
    assert oom_kills(own, tmp_path / "cgroups", machine) is None
    machine.write_text("nr_free_pages 5\noom_kill 7\n")
    assert oom_kills(own, tmp_path / "cgroups", machine) == 7
    group.mkdir(parents=True)
    (group / "memory.events").write_text("low 0\noom 4\noom_kill 3\noom_group_kill 2\n")
    assert oom_kills(own, tmp_path / "cgroups", machine) == 3
