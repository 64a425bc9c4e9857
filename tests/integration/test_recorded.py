"""Messages of Debezium that were kept (tests/recorded): of this version as it wrote them, of older ones by their form.

Among them is what takes a signal, a heartbeat or an incremental snapshot to make. Each file says where it is from, and
which rows are left in the end.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fix_lane import MakeLane
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Message

FILES = sorted((Path(__file__).resolve().parents[1] / "recorded").glob("*.json"))
CHANGES = ("c", "u", "r", "d", "t")
#: messages of an epoch: all of them, and so few that most epochs begin in the midst of something
SIZES = (50_000, 6)


@dataclass(frozen=True)
class Recording:
    """One file."""

    ddl: Sequence[str]
    messages: Sequence[tuple[str | None, str | None]]
    rows: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls, file: Path) -> "Recording":
        """As `tests/record.py` writes it."""
        content = json.loads(file.read_text())
        return cls(content["ddl"], content["messages"], content["rows"])

    @property
    def sent(self) -> list[Message]:
        """For a topic."""
        return [Message(key=_bytes(key), value=_bytes(value)) for key, value in self.messages]

    @property
    def changes(self) -> int:
        """How many of them ask for something."""
        bodies = [json.loads(value) for _, value in self.messages if value]
        bodies = [body.get("payload", body) for body in bodies]
        return sum(body.get("op") in CHANGES and body["source"]["table"] in self.rows for body in bodies)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_was_kept_is_applied_and_accounted_for(
    file: Path, size: int, lane: MakeLane, target: Target, topic: Topic
) -> None:
    kept = Recording.read(file)
    for statement in kept.ddl:
        target.execute(statement)
    topic.send(kept.sent)
    rules = {"on_truncate": "apply", "unknown_table": "ignore"}
    modes = {"decimal": "string", "interval": "string"}
    lane("ledger", target=rules, source={"modes": modes}, epoch={"max_messages": size}).run_until_caught_up()
    counts = target.ledger_sum()
    assert target.execute("select error from surelane.quarantine") == []
    assert (counts.consumed, counts.filtered) == (len(kept.messages), len(kept.messages) - kept.changes)
    assert counts.applied + counts.compacted == kept.changes
    assert {table: target.text_rows(f"public.{table}") for table in kept.rows} == kept.rows
