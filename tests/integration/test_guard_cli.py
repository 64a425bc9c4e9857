"""The guard from the command line, and its database of its own: shown, prepared and examined. Kafka is not there."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli.doctor_checks.guard_check import guard
from app.cli.guard_view import guard_text
from app.cli.rendering import show
from app.config.loader import load
from app.errors import ExitStatus
from app.ledger.revision import head
from app.model.offsets import Offsets, Span, TopicPartition
from app.poison.attempts import Attempt, Attempts, AttemptStage, Suspect
from tests.commands import Ended
from tests.fix_target import GUARD, SCHEMA, Target

TOPIC = TopicPartition("made-up", 0)
FINISHED = {"generation", "epoch", "stage", "finished", "host", "pid", "start", "end", "messages_at_most", "begun_at"}


def span(first: int, end: int) -> Span:
    return Span(start=Offsets.of({TOPIC: first}), end=Offsets.of({TOPIC: end}))


@dataclass(frozen=True)
class Post:
    """A lane's configuration, the command, and the database that has the guard's tables."""

    folder: Path
    surelane: Callable[..., Ended]
    target: Target
    lane: str = "orders"

    def configure(self, **more: Any) -> None:
        sections = {
            "lane": self.lane,
            "source": {"bootstrap_servers": "127.0.0.1:1", "topics": [TOPIC.topic]},
            "target": self.target.section,
        }
        (self.folder / "surelane.yaml").write_text(yaml.safe_dump(sections | more))

    def attempts(self, lane: str | None = None, database: Target | None = None) -> Attempts:
        """As the lane writes them."""
        return Attempts((database or self.target).as_lane, SCHEMA, lane or self.lane)

    def begin(self, lane: str | None = None, database: Target | None = None, epoch: int = 7) -> Attempts:
        """A lane that has begun a span and suspects a message of it."""
        attempts = self.attempts(lane, database)
        attempts.begin(
            Attempt(generation=2, epoch=epoch, stage=AttemptStage.APPLY, span=span(500, 516), finished=False)
        )
        attempts.suspect(
            Suspect(
                stage=AttemptStage.APPLY,
                span=span(503, 504),
                attempts=2,
                losses=1,
                first_messages=16,
                cause="value too\x1b[31m long: [bold]secret",
                error_class="StringDataRightTruncation",
                sqlstate="22001",
            )
        )
        return attempts

    def show(self) -> Any:
        return self.surelane("guard", "show", "--json").json["lanes"]


@pytest.fixture
def post(target: Target, surelane: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Post:
    monkeypatch.chdir(tmp_path)
    made = Post(tmp_path, surelane, target)
    made.configure()
    return made


def test_nothing_was_ever_begun(post: Post) -> None:
    assert post.show() == [{"lane": "orders", "in_progress": None, "suspects": []}]
    ended = post.surelane("guard", "show")
    assert ended.status == 0
    assert "nothing was ever begun" in ended.out
    assert "nothing is suspected" in ended.out


def test_what_is_in_progress_and_suspected(post: Post, capsys: pytest.CaptureFixture[str]) -> None:
    post.begin()
    post.begin("other")
    (lane,) = post.show()
    now, (suspect,) = lane["in_progress"], lane["suspects"]
    assert set(now) == FINISHED
    assert (now["epoch"], now["generation"], now["stage"], now["finished"]) == (7, 2, "apply", False)
    assert (now["start"], now["end"], now["messages_at_most"]) == (
        {"made-up": {"0": 500}},
        {"made-up": {"0": 516}},
        16,
    )
    assert (suspect["start"], suspect["messages_at_most"]) == ({"made-up": {"0": 503}}, 1)
    assert [suspect[name] for name in ("attempts", "max_attempts", "losses", "max_losses")] == [2, 3, 1, 5]
    assert (suspect["first_messages"], suspect["cuts_left"]) == (16, 0)
    assert (suspect["sqlstate"], suspect["error_class"]) == ("22001", "StringDataRightTruncation")
    out = post.surelane("guard", "show").out
    for words in (
        "7 of generation 2",
        "made-up[0]@500..515",
        "16 at most",
        "made-up[0]@503",
        "2 of 3",
        "1 of 5",
        "1 of 16",
    ):
        assert words in out
    assert "22001 value too\\u001b[31m long: [bold]secret" in out, "nothing of it commands the terminal"
    show({"lanes": [lane]}, guard_text, as_json=False)
    assert capsys.readouterr().out == out


def test_what_is_over(post: Post) -> None:
    attempts = post.begin()
    attempts.finish(2)
    for suspect in attempts.suspects():
        attempts.clear_suspect(suspect)
    (lane,) = post.show()
    assert (lane["in_progress"]["finished"], lane["suspects"]) == (True, [])
    out = post.surelane("guard", "show").out
    assert "nothing is suspected" in out
    assert "yes, or was" not in out


def test_the_times_are_those_of_the_newest_attempt(post: Post) -> None:
    attempts = post.begin()
    (before,) = post.show()
    post.target.execute("update surelane.attempt set begun_at = begun_at - interval '1 day'")
    post.target.execute("update surelane.suspect set first_at = first_at - interval '1 day', last_at = first_at")
    post.begin(epoch=8)
    (after,) = post.show()
    assert after["in_progress"]["begun_at"] > before["in_progress"]["begun_at"]
    assert after["suspects"][0]["first_at"] < before["suspects"][0]["first_at"]
    assert after["suspects"][0]["last_at"] > before["suspects"][0]["last_at"]
    attempts.close()


def test_redacted_words_that_are_older_than_the_configuration(post: Post) -> None:
    post.begin()
    post.configure(guard={"redact": ["*.email"]})
    for arguments in ((), ("--json",)):
        out = post.surelane("guard", "show", *arguments).out
        assert "secret" not in out
        assert "StringDataRightTruncation" in out


def test_a_lane_for_each_partition(post: Post) -> None:
    post.configure(source={"bootstrap_servers": "127.0.0.1:1", "topics": [TOPIC.topic], "order": "partition"})
    assert post.show() == []
    assert "has begun anything" in post.surelane("guard", "show").out
    for lane in ("orders.1", "orders.0", "orders2.0", "orders"):
        post.begin(lane)
    assert [lane["lane"] for lane in post.show()] == ["orders.0", "orders.1"]


def test_never_migrated(post: Post) -> None:
    post.target.unmigrate()
    ended = post.surelane("guard", "show")
    assert ended.status == ExitStatus.TARGET
    assert "surelane migrate" in ended.err


def test_away(post: Post) -> None:
    post.configure(guard={"url": "postgresql://me:hunter2@127.0.0.1:1/guard"})
    ended = post.surelane("guard", "show")
    assert ended.status == ExitStatus.ENVIRONMENT
    assert "hunter2" not in ended.err


def test_only_the_guards_database_is_read(post: Post, elsewhere: Target) -> None:
    """The target is away, and the verb does not need it."""
    post.configure(guard={"url": elsewhere.url}, target={"url": "postgresql://me@127.0.0.1:1/shop"})
    post.begin(database=elsewhere)
    (lane,) = post.show()
    assert lane["in_progress"]["epoch"] == 7


def test_migrate_prepares_both(post: Post, elsewhere: Target) -> None:
    for database in (post.target, elsewhere):
        database.unmigrate()
    post.configure(guard={"url": elsewhere.url})
    expected = {"before": None, "after": head()}
    found = post.surelane("migrate", "--json").json
    assert found == {"schema": SCHEMA, **expected, "guard": expected}
    post.begin(database=elsewhere)
    again = post.surelane("migrate")
    assert again.out.count(f"at revision {head()} already") == 2
    post.configure()
    assert post.surelane("migrate", "--json").json["guard"] is None


def found_by_doctor(folder: Path) -> list[tuple[str, str, str]]:
    """Level, message and hint of the guard's checks."""
    findings = guard(load(folder / "surelane.yaml"))
    assert {one.check for one in findings} <= {"guard"}
    assert all(one.hint for one in findings if one.level != "ok")
    return [(one.level.value, one.message, one.hint or "") for one in findings]


def test_doctor_with_the_guard_in_the_target(post: Post) -> None:
    assert found_by_doctor(post.folder) == []


def test_doctor_finds_nothing_wrong(post: Post, elsewhere: Target) -> None:
    post.configure(guard={"url": elsewhere.url})
    assert [level for level, _, _ in found_by_doctor(post.folder)] == ["ok"] * 4


def test_doctor_finds_it_not_migrated(post: Post, elsewhere: Target) -> None:
    elsewhere.unmigrate()
    post.configure(guard={"url": elsewhere.url})
    ((level, message, hint),) = (one for one in found_by_doctor(post.folder) if one[0] != "ok")
    assert (level, hint) == ("fault", "surelane migrate")
    assert "not there yet" in message


def test_doctor_finds_that_it_may_not_be_written(post: Post, elsewhere: Target) -> None:
    post.configure(guard={"url": elsewhere.url})
    elsewhere.execute(f"revoke insert, update on surelane.suspect from {GUARD}")
    ((level, message, hint),) = (one for one in found_by_doctor(post.folder) if one[0] != "ok")
    assert level == "fault"
    assert "surelane.suspect (insert, update)" in message
    assert f'ON surelane.suspect TO "{GUARD}"' in hint


def test_doctor_finds_it_away_and_goes_on(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.kafka.broker.REQUEST_TIMEOUT_SECONDS", 1.0)
    post.configure(guard={"url": "postgresql://me:hunter2@127.0.0.1:1/guard"})
    ended = post.surelane("doctor", "--json")
    assert ended.status == ExitStatus.FAULTS_FOUND
    (fault,) = [one for one in ended.json["findings"] if one["check"] == "guard"]
    assert fault["level"] == "fault"
    assert "guard.url" in fault["hint"]
    assert "hunter2" not in ended.out + ended.err
    assert "migrations" in [one["check"] for one in ended.json["findings"]]
