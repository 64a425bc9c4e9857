"""Savepoints for tests: one made by hand, and what the verbs print."""

import datetime
import json
from typing import Any

import yaml

from app.config.settings import Settings
from app.model.offsets import Offsets, TopicPartition
from app.savepoint.fingerprint import items
from app.savepoint.savepoint import SavedLane, Savepoint, Versions
from app.snapshot.manifest import LanePosition
from tests.fix_snapshot import Snapshotting

AT = Offsets.of({TopicPartition("shop.cdc", 0): 120})
RAW: dict[str, Any] = {
    "lane": "orders",
    "source": {"bootstrap_servers": "127.0.0.1:9092", "topics": ["shop.cdc"]},
    "target": {"url": "postgresql+psycopg2://surelane@127.0.0.1/shop", "tables": {"public.*": "public.*"}},
}


def changed(**sections: dict[str, Any]) -> dict[str, Any]:
    """The items of RAW with other keys."""
    return items(Settings.of({**RAW, **{name: {**RAW.get(name, {}), **keys} for name, keys in sections.items()}}))


ITEMS = changed()


def savepoint(name: str = "one", **more: Any) -> Savepoint:
    """One of a lane that has applied 120 messages."""
    position = LanePosition(lane="orders", generation=3, epoch=7, applied=AT, read=AT, checkpoint="an id")
    state = SavedLane(
        position=position,
        last_messages={"shop.cdc": {"0": {"offset": 119}}},
        quarantine={"quarantined": 2},
        parked=(("public.orders", '{"id":1}', 2),),
        suspects=1,
    )
    return Savepoint(
        **{
            "name": name,
            "lane": "orders",
            "made_at": datetime.datetime(2026, 11, 25, tzinfo=datetime.UTC),
            "lanes": (state,),
            "cluster_id": "a cluster",
            "topics": {"shop.cdc": "an id"},
            "configuration": {"lane": "orders"},
            "items": ITEMS,
            "versions": Versions(surelane="1", spark="4.2.0", postgres="15.18", ledger="abc"),
            **more,
        }
    )


def called(site: Snapshotting, *arguments: str, status: int = 0) -> Any:
    """What the verb prints as JSON."""
    ended = site.surelane("savepoint", *arguments, "--json")
    assert ended.status == status, ended.err
    (line,) = (line for line in ended.out.splitlines() if line.startswith("{"))  # beside what the writer logs
    return json.loads(line)


def configure(site: Snapshotting, **sections: dict[str, Any]) -> None:
    """Savepoints in a folder of the test; `sections` go on top."""
    site.configure()
    file = site.folder / "surelane.yaml"
    plain = yaml.safe_load(file.read_text()) | {"savepoints": {"directory": str(site.folder / "savepoints")}}
    for name, keys in sections.items():
        plain[name] = plain.get(name, {}) | keys
    file.write_text(yaml.safe_dump(plain))
