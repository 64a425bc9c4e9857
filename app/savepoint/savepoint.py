"""The values of a savepoint, and their JSON."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from app.model.offsets import Offsets
from app.model.state_store import StateStore
from app.snapshot.manifest import LanePosition

#: of the file; a program refuses a newer one
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class SavedLane:
    """One lane at the savepoint's moment."""

    position: LanePosition
    #: identity of the last message of each partition, as the ledger has it: topic -> partition -> its JSON
    last_messages: Mapping[str, Any]
    #: entries in quarantine by state
    quarantine: Mapping[str, int]
    #: keys whose changes wait: `schema.table`, the key as decoded, number of entries
    parked: tuple[tuple[str, str, int], ...]
    #: suspects of the guard
    suspects: int

    def as_json(self) -> dict[str, Any]:
        """For the file and `--json`."""
        parked = [{"table": table, "key": key, "entries": entries} for table, key, entries in self.parked]
        return {
            **self.position.as_json(),
            "last_messages": dict(self.last_messages),
            "quarantine": dict(self.quarantine),
            "parked": parked,
            "suspects": self.suspects,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """From the file's JSON. Raises KeyError, TypeError or ValueError for another content."""
        names = ("lane", "generation", "epoch", "applied", "read", "checkpoint")
        return cls(
            position=LanePosition.of({name: plain[name] for name in names}),
            last_messages=plain["last_messages"],
            quarantine=plain["quarantine"],
            parked=tuple((one["table"], one["key"], one["entries"]) for one in plain["parked"]),
            suspects=plain["suspects"],
        )


@dataclass(frozen=True, kw_only=True)
class Versions:
    """What made the savepoint and what it is of."""

    surelane: str
    spark: str
    postgres: str
    #: revision of the ledger's schema
    ledger: str


@dataclass(frozen=True, kw_only=True)
class Savepoint:
    """A lane of one configuration, or its lanes of one partition each, at one moment of the target."""

    name: str
    #: lane of the configuration
    lane: str
    made_at: datetime.datetime
    lanes: tuple[SavedLane, ...]
    #: pinned ids: of the cluster, and topic -> topic id
    cluster_id: str | None
    topics: Mapping[str, str]
    #: without passwords
    configuration: Mapping[str, Any]
    #: see `app.savepoint.fingerprint`: item -> value
    items: Mapping[str, Any]
    versions: Versions
    #: name and checksum of the snapshot that is of exactly this position; None: none was asked for
    snapshot: tuple[str, str] | None = None
    #: whether the lane has made it by itself, see `savepoints.every`
    periodic: bool = False
    #: names and schemas of the state that the lane's queries have, by query
    state: Mapping[str, Sequence[StateStore]] = field(default_factory=dict)

    @property
    def position(self) -> Offsets:
        """Where all lanes together go on."""
        return Offsets.of({tp: at for one in self.lanes for tp, at in one.position.applied.items()})

    def as_json(self) -> dict[str, Any]:
        """For the file and `--json`."""
        return {
            "format": FORMAT,
            "name": self.name,
            "lane": self.lane,
            "made_at": self.made_at.isoformat(),
            "position": self.position.nested(),
            "lanes": [one.as_json() for one in self.lanes],
            "cluster_id": self.cluster_id,
            "topics": dict(self.topics),
            "configuration": dict(self.configuration),
            "items": dict(self.items),
            "versions": vars(self.versions),
            "snapshot": None if self.snapshot is None else {"name": self.snapshot[0], "sums": self.snapshot[1]},
            "periodic": self.periodic,
            "state": {query: [one.as_json() for one in stores] for query, stores in self.state.items()},
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """From the file's JSON. Raises KeyError, TypeError or ValueError for another content."""
        if plain["format"] != FORMAT:
            raise ValueError(f"it is of format {plain['format']}, this version reads {FORMAT}")
        snapshot = plain["snapshot"]
        return cls(
            name=plain["name"],
            lane=plain["lane"],
            made_at=datetime.datetime.fromisoformat(plain["made_at"]),
            lanes=tuple(SavedLane.of(one) for one in plain["lanes"]),
            cluster_id=plain["cluster_id"],
            topics=plain["topics"],
            configuration=plain["configuration"],
            items=plain["items"],
            versions=Versions(**plain["versions"]),
            snapshot=None if snapshot is None else (snapshot["name"], snapshot["sums"]),
            periodic=plain["periodic"],
            state={query: [StateStore.of(one) for one in stores] for query, stores in plain["state"].items()},
        )
