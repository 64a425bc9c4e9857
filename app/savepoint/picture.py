"""Reads a savepoint while the lane runs, and without stopping it.

The target's part is read in one REPEATABLE READ transaction, so ledger, pins and quarantine are of one moment, the one
of the position. The guard's records are in a database of their own, perhaps, and are read behind it.
"""

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version as version_of

from sqlalchemy import Connection, text

from app.config.settings import Settings, SnapshotDriver
from app.db.sqlstate import translated
from app.errors import Refused
from app.installation import version
from app.ledger.query_states import QueryStates
from app.ledger.revision import current_revision
from app.ledger.store import Ledger
from app.model.last import nested
from app.model.state_store import StateStore
from app.poison.guard_database import guard_engine
from app.poison.guard_overview import overview
from app.quarantine.parked_keys import ParkedKeys
from app.quarantine.quarantine import Quarantine
from app.savepoint.fingerprint import items
from app.savepoint.savepoint import SavedLane, Savepoint, Versions
from app.snapshot.manifest import LanePosition
from app.snapshot.snapshot_directory import StoredSnapshot
from app.snapshot.snapshots import Snapshots
from app.snapshot.target_info import looking, pinned, seen

_APPLICATION = "surelane savepoint"
#: sections of a configuration that are kept, and keys in them that are not
_SECTIONS = ("lane", "source", "target", "delivery", "commit", "epoch", "stage", "guard", "transform", "sql", "restart")
_PLACES = {
    "source": ("bootstrap_servers", "security", "options"),
    "target": ("url", "password_from", "owner_role"),
    "guard": ("url", "password_from", "dead_letter"),
}
_SERVER_VERSION = text("select current_setting('server_version')")


def picture(settings: Settings, name: str, *, periodic: bool = False) -> Savepoint:
    """The savepoint `name` of this moment; see `picture_in`."""
    with looking(settings) as connection, translated("savepoint: reading the target"):
        return replace(picture_in(connection, settings, name), periodic=periodic)


def picture_with_dump(
    settings: Settings, name: str, progress: Callable[[str], None]
) -> tuple[Savepoint, StoredSnapshot]:
    """The savepoint and a dump of the target, of the same name, both read in one database snapshot. Raises what
    `Snapshots.create` does. The dump stays where the savepoint cannot be made."""
    pictures: list[Savepoint] = []
    made = Snapshots(settings, progress).create(
        name,
        SnapshotDriver.DUMP,
        beside=lambda connection: pictures.append(picture_in(connection, settings, name)),
    )
    manifest = made.stored.manifest
    return replace(pictures[0], snapshot=(manifest.name, manifest.sums)), made.stored


def picture_in(connection: Connection, settings: Settings, name: str) -> Savepoint:
    """The savepoint of the moment of this REPEATABLE READ transaction. Raises Refused for a lane that has no ledger
    row, Unreachable where a server is away. Nothing is written."""
    made_at = datetime.datetime.now(datetime.UTC)
    found = seen(connection, settings).lanes
    if not found:
        raise Refused(
            f"lane {settings.lane} has no position yet: the ledger in {settings.target.db_schema} has no row of it",
            hint="run it once: surelane run",
        )
    suspects = _suspects(settings)
    lanes = tuple(_lane(connection, settings, one, suspects.get(one.lane, 0)) for one in found)
    cluster_id, topics = pinned(connection, settings)
    versions = Versions(
        surelane=version(),
        spark=version_of("pyspark"),
        postgres=connection.execute(_SERVER_VERSION).scalar_one(),
        ledger=current_revision(connection, settings.target.db_schema) or "none",
    )
    return Savepoint(
        name=name,
        lane=settings.lane,
        made_at=made_at,
        lanes=lanes,
        cluster_id=cluster_id,
        topics=topics,
        configuration=_configuration(settings),
        items=items(settings),
        versions=versions,
        state=_states(connection, settings),
    )


def _states(connection: Connection, settings: Settings) -> dict[str, list[StateStore]]:
    """Of the configuration's queries that have a state."""
    states = QueryStates(settings.target.db_schema)
    found = {name: states.find(connection, settings.of_query(name).lane) for name in settings.queries}
    return {name: stores for name, stores in found.items() if stores}


def _lane(connection: Connection, settings: Settings, position: LanePosition, suspects: int) -> SavedLane:
    schema = settings.target.db_schema
    last, quarantine = Ledger(schema, position.lane).last(connection), Quarantine(schema, position.lane)
    parked = ParkedKeys(quarantine)
    parked.read(connection)
    return SavedLane(
        position=position,
        last_messages=nested(last.last) if last else {},
        quarantine={state.value: count for state, count in quarantine.counts(connection).items()},
        parked=tuple((f"{key.schema}.{key.table}", key.text, parked.entries(key)) for key in parked),
        suspects=suspects,
    )


def _suspects(settings: Settings) -> dict[str, int]:
    engine = guard_engine(settings, _APPLICATION)
    try:
        with translated("savepoint: reading the guard's tables"), engine.connect() as connection:
            found = overview(
                connection, settings.target.db_schema, settings.lane, several=settings.source.is_by_partition
            )
            return {one.lane: len(one.suspects) for one in found}
    finally:
        engine.dispose()


def _configuration(settings: Settings) -> dict[str, object]:
    """All keys but those of places and logins, which belong to a machine."""
    plain = json.loads(settings.model_dump_json(by_alias=True, warnings=False))
    for section, keys in _PLACES.items():
        for key in keys:
            plain[section].pop(key, None)
    return {name: value for name, value in plain.items() if name in _SECTIONS}
