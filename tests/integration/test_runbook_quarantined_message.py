"""ops/runbooks/quarantined-message.md: messages that the target refused, found, mended and applied after all."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from app.config.on_skip import OnSkip
from tests import messages as m
from tests.commands import Ended
from tests.fix_bare_lane import TOPIC, MakeBareLane
from tests.fix_target import Target
from tests.messages import Debezium, Message, Table
from tests.runbook import play, runner

PAGE = "quarantined-message.md"
LANE = "orders"
ORDERS, SCRATCH = (Table(name, {"id": m.INT, "note": m.TEXT}) for name in ("orders", "scratch"))
LONG = "x" * 11
_d = Debezium()


def row(number: int, note: str, table: Table = ORDERS) -> Message:
    return _d.create(table, {"id": number, "note": note})


def test_the_page(
    bare_lane: MakeBareLane,
    target: Target,
    surelane: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A column is too narrow; one message is given up, all others are applied, parked ones behind theirs."""
    monkeypatch.chdir(tmp_path)
    for table in (ORDERS, SCRATCH):
        target.execute(f"create table {table.name} (id int primary key, note varchar(10))")
    lane = bare_lane(name=LANE, on_skip=OnSkip.PARK)
    source = {"bootstrap_servers": "127.0.0.1:1", "topics": [TOPIC.topic]}
    (tmp_path / "surelane.yaml").write_text(yaml.safe_dump({"lane": LANE, "source": source, "target": target.section}))
    lane.apply([row(7, LONG), row(8, "fits"), row(1, LONG, SCRATCH), row(7, "newer"), row(9, LONG)])
    (first, other) = (
        str(number)
        for (number,) in target.execute(
            "select id from surelane.quarantine where \"offset\" in (0, 2) and state = 'quarantined' order by id"
        )
    )

    def call(*words: str) -> Ended:
        if words != ("run",):
            return surelane(*words)
        lane.reopen()
        lane.release()
        return Ended(0, "", "")

    values = {"id": first, "other": other, "count": "3"}
    ended = play(PAGE, "Find the cause", runner(call), **values)
    target.execute("alter table orders alter note type text")
    ended += play(PAGE, "Then", runner(call), **values)
    assert [one.status for one in ended] == [0] * len(ended)
    assert target.execute("select id, note from orders order by id") == [(7, "newer"), (8, "fits"), (9, LONG)]
    assert target.execute("select from scratch") == []
    assert target.prepared() == []
