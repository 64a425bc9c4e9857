"""The journal of a recovery: who called it, and whether one is at work."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.errors import Refused
from app.recover.journal import Step, StepState, course, journal
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
            book.order(who, "host", f"for {place}")
            book.begin(Step.CHECK)
            book.end(Step.CHECK, StepState.DONE, "sound")
    found = course(snapshot)
    assert [(one.who, one.host, one.reason) for one in found.orders] == [
        ("alice", "host", "for /srv/x"),
        ("console:bob", "host", "for /srv/y"),
    ]
    document = found.as_json()
    assert (document["place"]["to"], document["at_work"], len(document["orders"])) == ("/srv/y", False, 2)
    assert document["steps"][0]["state"] == "done"
