"""The journal of a recovery: who called it, and whether one is at work."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.cli.recover_view import course_text
from app.errors import Refused
from app.recover.journal import FILE, Step, StepState, course, journal
from app.snapshot.driver import RestorePlace
from app.snapshot.snapshot_directory import StoredSnapshot


def stored(folder: Path) -> StoredSnapshot:
    return cast("Any", SimpleNamespace(folder=folder, manifest=SimpleNamespace(name="one")))


def test_it_is_at_work_while_a_call_has_the_journal(tmp_path: Path) -> None:
    snapshot = stored(tmp_path)
    assert not course(snapshot).at_work
    with journal(snapshot) as book:
        book.begin_anew(RestorePlace(to="/srv/x"))
        assert course(snapshot).at_work
        with pytest.raises(Refused, match="at work"), journal(snapshot):
            pass
    assert not course(snapshot).at_work
    with journal(snapshot):  # looking at it has left no lock
        pass


def test_each_call_is_on_record(tmp_path: Path) -> None:
    """Also when the recovery is given up for another one."""
    snapshot = stored(tmp_path)
    for place, who in (("/srv/x", "alice"), ("/srv/y", "console:bob")):
        with journal(snapshot) as book:
            book.begin_anew(RestorePlace(to=place))
            book.order(who, "host", f"for {place}", RestorePlace(to=place, port=5433), anew=who != "alice")
            book.begin(Step.CHECK)
            book.end(Step.CHECK, StepState.DONE, "sound")
    found = course(snapshot)
    assert [(one.who, one.host, one.reason) for one in found.orders] == [
        ("alice", "host", "for /srv/x"),
        ("console:bob", "host", "for /srv/y"),
    ]
    assert [(one.place, one.port, one.foreign, one.anew) for one in found.orders] == [
        ("/srv/x", 5433, False, False),
        ("/srv/y", 5433, False, True),
    ]
    document = found.as_json()
    assert (document["place"]["to"], document["at_work"], len(document["orders"])) == ("/srv/y", False, 2)
    assert document["steps"][0]["state"] == "done"


def test_a_call_of_an_older_version_is_read(tmp_path: Path) -> None:
    """Its line has no place and no options."""
    line = {"at": "2026-01-01T00:00:00+00:00", "what": "order", "who": "alice", "host": "host", "reason": None}
    (tmp_path / FILE).write_text(json.dumps(line) + "\n")
    (order,) = course(stored(tmp_path)).orders
    assert (order.who, order.place, order.foreign) == ("alice", None, False)


def test_how_far_the_replay_is(tmp_path: Path) -> None:
    """Of all calls together: a later one goes on towards the same goal."""

    def at(number: int) -> dict[str, dict[str, int]]:
        return {"orders": {"0": number}}

    snapshot = stored(tmp_path)
    with journal(snapshot) as book:
        book.begin(Step.REPLAY, goal=at(100))
        assert course(snapshot).replay is None
        book.progress(Step.REPLAY, first=at(40))
        book.progress(Step.REPLAY, position=at(70))
    with journal(snapshot) as book:
        book.begin(Step.REPLAY)
        book.progress(Step.REPLAY, position=at(90))
    found = course(snapshot)
    assert found.steps[Step.REPLAY].state is StepState.BEGUN
    assert found.replay is not None
    assert (found.replay.done, found.replay.left) == (50, 10)
    assert "50 messages done, 10 left" in "\n".join(
        course_text({"snapshot": "one", **found.as_json(), "place": {"to": "x"}})
    )
