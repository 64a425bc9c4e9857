"""A target lost after Kafka forgot what it needs: the archive has it."""

from collections.abc import Callable

from app.errors import ExitStatus
from tests.fix_recover import MESSAGES, MakeLost, forget
from tests.fix_topic import Topic
from tests.oracle import questions
from tools.devstack import Kafka


def test_the_archive_fills_the_gap(lost: MakeLost, kafka: Kafka) -> None:
    """Killed in the midst of it, it goes on; from where Kafka begins, Kafka has the word. Without the archive the plan
    refuses, and says what is gone."""
    made = lost("dump", archived=True)
    archive = made.lane.archive
    assert archive is not None
    low = MESSAGES + 25
    forget(kafka, made.topic.name, low)
    hidden = archive.rename(archive.with_name("hidden"))
    ended = made.surelane("recover", "plan", "--snapshot", made.name)
    assert ended.status == ExitStatus.DIVERGED
    assert f"Kafka has no longer: {made.topic.name}[0]" in ended.out
    hidden.rename(archive)
    plan = made.surelane("recover", "plan", "--snapshot", made.name, "--json").json
    checks = {one["what"]: one for one in plan["checks"]}
    assert (plan["ok"], checks["archive"]["ok"]) == (True, True)
    assert f"{made.topic.name}[0]" in checks["archive"]["said"]
    assert f"to {low - 1}" in checks["archive"]["said"]
    made.killed("after-begin", *made.to)
    assert made.course()["replay"] == "begun"
    ended = made()
    assert ended.status == 0, ended.err
    made.questions()
    questions(made.target, made.topic, archive=archive)
    filled = [row for row in made.copy.epochs() if row.end_position[made.topic.name]["0"] <= low]
    assert filled, "epochs that Kafka could not have given"


def test_filled_by_the_sources_transactions(lost: MakeLost, kafka: Kafka) -> None:
    made = lost("dump", archived=True, epoch={"align": "source-transaction"})
    low = MESSAGES + 25
    forget(kafka, made.topic.name, low)
    ended = made(*made.to)
    assert ended.status == 0, ended.err
    made.questions()
    assert [row for row in made.copy.epochs() if row.end_position[made.topic.name]["0"] <= low]


def test_each_partition_is_filled(lost: MakeLost, kafka: Kafka, new_topic: Callable[..., Topic]) -> None:
    """From its own lane's part of the archive; Kafka has kept all of one of them, and nothing of the others."""
    made = lost("dump", new_topic(partitions=3), archived=True)
    _, *forgotten = made.topic.ends.items()
    for tp, end in forgotten:
        forget(kafka, tp.topic, end, tp.partition)
    ended = made(*made.to)
    assert ended.status == 0, ended.err
    made.questions()
    assert dict(made.copy.position()) == made.topic.ends
