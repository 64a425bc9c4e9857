"""A second lane fills a copy in another database, and takes the original's place there; and back again."""

from pathlib import Path
from typing import Any

import pytest

from app.errors import ExitStatus
from tests.commands import Ended, called, ended, expected
from tests.fix_doubt import changes
from tests.fix_lane import LaneUnderTest, MakeLane, MakeProcess
from tests.fix_proxy import proxy_to
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.oracle import equals_oracle
from tests.runbook import play, runner
from tests.workload import COUNTER

TABLE = "public.counter"
WIDER = f"create table {TABLE} (id bigint primary key, hits numeric)"


class Site:
    """An original lane, and the lane of its copy in another database."""

    def __init__(self, lane: MakeLane, target: Target, second: Target, folder: Path, url: str | None = None) -> None:
        """`url`: the way to the second target, if it is another one."""
        more = {"savepoints": {"directory": str(folder / "savepoints")}, "epoch": {"max_messages": 50}}
        self.second = second
        self.old = lane("two-phase", **more)
        checkpoint = str(folder / "checkpoint-v2")
        self._lane, self._more = lane, {"lane": f"{self.old.name}-v2", "checkpoint": checkpoint, **more}
        self.new = lane("two-phase", target={**second.section, "url": url or second.url}, **self._more)

    def misplaced(self) -> LaneUnderTest:
        """The copy's lane, with the original's database."""
        return self._lane("two-phase", **self._more)

    def shadow(self, *words: str) -> Any:
        return called(self.new, "shadow", *words, "--original", str(self.old.config_file))

    def refused(self, *words: str) -> str:
        more = ("--original", str(self.old.config_file))
        return expected(self.new, "shadow", *words, *more, status=ExitStatus.REFUSED).err

    def caught_up(self, made: LaneUnderTest, at: Target, topic: Topic) -> bool:
        return dict(at.position(made.name)) == topic.ends


@pytest.fixture
def site(lane: MakeLane, target: Target, second_target: Target, tmp_path: Path) -> Site:
    target.create(COUNTER)
    return Site(lane, target, second_target, tmp_path)


def test_switched_and_back(
    site: Site, lane_process: MakeProcess, target: Target, second_target: Target, topic: Topic
) -> None:
    topic.send(changes(0, 300))
    old, new = lane_process(site.old).start(), lane_process(site.new)
    old.until(lambda: site.caught_up(site.old, target, topic), why="the first messages")
    expected(site.old, "savepoint", "create", "before")
    arguments = ("create", "--from-savepoint", "before")
    assert "has no table public.counter" in site.refused(*arguments)
    second_target.execute(WIDER)
    made = site.shadow(*arguments)
    assert (made["rows"], made["position"]) == ({TABLE: 300}, {topic.name: {"0": 300}})
    assert "127.0.0.1" in made["url"]
    assert "has a shadow copy already" in site.refused(*arguments), "its rows are no obstacle to be removed"
    topic.send(changes(300))
    assert "still 30 offsets behind" in site.refused("switch", "--max-pause", "15")
    new.start()
    new.until(lambda: site.caught_up(site.new, second_target, topic), why="the copy's lane")
    topic.send(changes(330, 300))
    old.until(lambda: site.caught_up(site.old, target, topic), why="messages before the switch")
    done = site.shadow("switch", "--max-pause", "60")
    assert (done["paused_seconds"] < 30, old.wait()) == (True, 0)
    refused = expected(site.old, "run", "--until-caught-up", status=ExitStatus.REFUSED)
    assert "has taken its place" in refused.err
    topic.send(changes(630))
    new.until(lambda: site.caught_up(site.new, second_target, topic), why="messages after the switch")
    equals_oracle(second_target, topic)
    assert len(target.rows(TABLE)) == 630, "the original has stopped"
    site.shadow("undo")
    old.start()
    old.until(lambda: site.caught_up(site.old, target, topic), why="the original lane")
    equals_oracle(target, topic)
    site.shadow("switch", "--max-pause", "60")
    assert old.wait() == 0
    assert site.shadow("dispose", "--yes")["dropped"] == []
    assert site.shadow("status")["copy"]["state"] == "disposed"
    assert "has taken its place" in expected(site.old, "run", "--until-caught-up", status=ExitStatus.REFUSED).err
    assert new.stop() == 0


def test_from_the_topics_and_given_up(site: Site, target: Target, second_target: Target, topic: Topic) -> None:
    topic.send(changes(0, 30))
    site.old.run_until_caught_up()
    expected(site.old, "savepoint", "create", "before")
    second_target.execute(WIDER)
    assert site.shadow("create", "--from-savepoint", "before", "--from-topics")["rows"] == {}
    assert site.shadow("status")["behind"] == 30
    misplaced = site.misplaced()
    for made, verb in ((site.old, "status"), (misplaced, "status"), (misplaced, "dispose")):
        found = expected(made, "shadow", verb, *(["--yes"] if verb == "dispose" else []), status=ExitStatus.REFUSED)
        assert f"the copy that lane {site.new.name} fills is in another database" in found.err
        assert "--original" in found.err
    assert expected(site.new, "run", "--until-caught-up").status == 0
    equals_oracle(second_target, topic)
    site.shadow("dispose", "--yes")
    assert site.shadow("status")["copy"] is None
    assert second_target.execute("select from surelane.ledger where lane = :lane", lane=site.new.name) == []
    topic.send(changes(30))
    site.old.run_until_caught_up()
    equals_oracle(target, topic)


def test_a_fill_that_fails_leaves_nothing(site: Site, target: Target, second_target: Target, topic: Topic) -> None:
    topic.send(changes(0, 30))
    site.old.run_until_caught_up()
    expected(site.old, "savepoint", "create", "before")
    second_target.execute(f"create table {TABLE} (id bigint primary key, hits numeric check (hits < 20))")
    found = expected(
        site.new,
        *("shadow", "create", "--from-savepoint", "before", "--original", str(site.old.config_file)),
        status=ExitStatus.TARGET,
    )
    assert "counter_hits_check" in found.err
    assert second_target.rows(TABLE) == {}
    assert site.shadow("status")["copy"] is None
    assert second_target.execute("select from surelane.ledger where lane = :lane", lane=site.new.name) == []


@pytest.mark.parametrize("is_done", [False, True], ids=["lost", "answer lost"])
def test_a_commit_whose_outcome_is_not_known(
    is_done: bool, lane: MakeLane, target: Target, second_target: Target, topic: Topic, tmp_path: Path
) -> None:
    """What was made can be given up, and made again; so can what a lost COMMIT left of that."""
    target.create(COUNTER)
    topic.send(changes(0, 30))
    with proxy_to(second_target.url) as network:
        url = network.url(second_target.url).render_as_string(hide_password=False)
        site = Site(lane, target, second_target, tmp_path, url)
        site.old.run_until_caught_up()
        expected(site.old, "savepoint", "create", "before")
        second_target.execute(WIDER)
        words = ("shadow", "create", "--from-savepoint", "before", "--original", str(site.old.config_file))
        network.forget("COMMIT", after="INSERT INTO surelane.ledger", is_done=is_done, cuts=False)
        assert "surelane shadow dispose" in expected(site.new, *words, status=ExitStatus.ENVIRONMENT).err
        assert len(second_target.rows(TABLE)) == (30 if is_done else 0)
        ledger = "select from surelane.ledger where lane = :lane"
        site.shadow("dispose", "--yes")
        assert second_target.execute(ledger, lane=site.new.name) == []
        second_target.execute(f"truncate {TABLE}")
        assert called(site.new, *words)["rows"] == {TABLE: 30}
        words = ("shadow", "dispose", "--yes", "--original", str(site.old.config_file))
        network.forget("COMMIT", after="DELETE FROM surelane.ledger", is_done=is_done, cuts=False)
        assert "not known whether" in expected(site.new, *words, status=ExitStatus.ENVIRONMENT).err
        site.shadow("dispose", "--yes")
        assert second_target.execute(ledger, lane=site.new.name) == []


def test_the_runbook(
    site: Site, lane_process: MakeProcess, target: Target, second_target: Target, topic: Topic
) -> None:
    topic.send(changes(0, 30))
    old, new = lane_process(site.old).start(), lane_process(site.new)
    old.until(lambda: site.caught_up(site.old, target, topic), why="the first messages")
    second_target.execute(WIDER)

    def surelane(*words: str) -> Ended:
        if words[:2] == ("shadow", "status"):
            new.start()
            new.until(lambda: site.caught_up(site.new, second_target, topic), why="the copy's lane")
        more = () if "--config" in words else ("--config", str(site.old.config_file))
        return ended(*words, *more)

    values = {
        "new": str(site.new.config_file),
        "old": str(site.old.config_file),
        "savepoint": "before",
        "lane": site.new.name,
        "original": site.old.name,
        "tables": TABLE,
    }
    done = play("shadow-upgrade.md", "Another database", runner(surelane), **values)
    assert [one.status for one in done] == [0] * len(done)
    assert old.wait() == 0
    topic.send(changes(30))
    new.until(lambda: site.caught_up(site.new, second_target, topic), why="messages after the switch")
    equals_oracle(second_target, topic)
    assert new.stop() == 0
