"""The manifest of a snapshot: JSON beside its content."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from app.config.settings import SnapshotDriver
from app.model.offsets import Offsets

#: the file's format; a program does not read a newer one
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class LanePosition:
    """The position of a lane, by its ledger."""

    lane: str
    generation: int
    #: the last epoch applied; -1: none yet
    epoch: int
    #: where the lane goes on
    applied: Offsets
    #: where its reading ends; beyond `applied` with epoch.align
    read: Offsets
    #: id of its newest generation's checkpoint
    checkpoint: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For files and `--json`."""
        positions = {"applied": self.applied.nested(), "read": self.read.nested()}
        names = {"lane": self.lane, "generation": self.generation, "epoch": self.epoch, "checkpoint": self.checkpoint}
        return names | positions

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        positions = {name: Offsets.from_nested(plain[name]) for name in ("applied", "read")}
        return cls(**{**plain, **positions})


@dataclass(frozen=True, kw_only=True)
class InDoubtTransaction:
    gid: str
    database: str
    owner: str
    prepared_at: str
    age_seconds: float


@dataclass(frozen=True, kw_only=True)
class TargetView:
    """The target's lanes and prepared transactions at one moment."""

    lanes: tuple[LanePosition, ...]
    #: of the whole server, also of other programs
    prepared: tuple[InDoubtTransaction, ...] = ()

    @property
    def position(self) -> Offsets:
        """The position of all lanes together."""
        return Offsets.of({tp: offset for lane in self.lanes for tp, offset in lane.applied.items()})

    def as_json(self) -> dict[str, Any]:
        """For files and `--json`."""
        return {"lanes": [one.as_json() for one in self.lanes], "prepared": [vars(one) for one in self.prepared]}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        lanes = tuple(LanePosition.of(one) for one in plain["lanes"])
        return cls(lanes=lanes, prepared=tuple(InDoubtTransaction(**one) for one in plain["prepared"]))


@dataclass(frozen=True, kw_only=True)
class Server:
    """Facts of the target's server and database."""

    version: str
    #: as in server_version_num
    number: int
    max_prepared_transactions: int
    database: str
    #: roles that own objects in the database, or have privileges on them
    roles: tuple[str, ...] = ()

    @property
    def major(self) -> int:
        return self.number // 10_000


@dataclass(frozen=True, kw_only=True)
class SnapshotContent:
    """What a driver reports of a snapshot that it made."""

    server: Server
    #: read in or before the snapshot: its content reaches at least this
    first: TargetView
    #: read after it: its content reaches at most this. None: `first` is exact
    last: TargetView | None
    #: version of the program that made it
    program: str
    bytes: int | None = None
    #: facts that only the driver uses
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything on record of a snapshot."""

    name: str
    driver: SnapshotDriver
    #: lane of the configuration
    lane: str
    #: the ledger's schema
    schema: str
    made_at: datetime.datetime
    ended_at: datetime.datetime
    content: SnapshotContent
    cluster_id: str | None
    topics: dict[str, str]
    #: messages per second of a lane under load; None: not known
    rate: float | None = None
    files: int = 0
    bytes: int = 0
    #: checksum of the file SHA256SUMS
    sums: str = ""
    #: what the first restore found inside
    actual: TargetView | None = None

    @property
    def seen(self) -> TargetView:
        """The best known view of the content."""
        return self.actual or self.content.first

    @property
    def exact(self) -> bool:
        """Whether `seen` is exactly the content."""
        return self.actual is not None or self.content.last is None

    @property
    def prepared(self) -> Sequence[InDoubtTransaction]:
        """Transactions that are prepared inside, or, if that is not known, were prepared while it was made."""
        if self.actual:
            return self.actual.prepared
        every = (self.content.first, *([self.content.last] if self.content.last else []))
        return list({one.gid: one for seen in every for one in seen.prepared}.values())

    def with_actual(self, seen: TargetView) -> "Manifest":
        """A copy with what a restore found inside."""
        return replace(self, actual=seen)

    def as_json(self) -> dict[str, Any]:
        """For the file and `--json`, without `actual`, which is in a separate file."""
        content = self.content
        return {
            "format": FORMAT,
            "name": self.name,
            "driver": self.driver.value,
            "lane": self.lane,
            "schema": self.schema,
            "made_at": self.made_at.isoformat(),
            "ended_at": self.ended_at.isoformat(),
            "cluster_id": self.cluster_id,
            "topics": self.topics,
            "rate": self.rate,
            "server": {**vars(content.server), "roles": list(content.server.roles)},
            "program": content.program,
            "exact": content.last is None,
            "first": content.first.as_json(),
            "last": content.last.as_json() if content.last else None,
            "files": self.files,
            "bytes": self.bytes,
            "sums": self.sums,
            "more": content.more,
        }

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """From JSON; raises KeyError, TypeError or ValueError if it is no manifest."""
        if plain["format"] != FORMAT:
            raise ValueError(f"it is of format {plain['format']}, this program knows {FORMAT}")
        server = Server(**{**plain["server"], "roles": tuple(plain["server"]["roles"])})
        content = SnapshotContent(
            server=server,
            first=TargetView.of(plain["first"]),
            last=TargetView.of(plain["last"]) if plain["last"] else None,
            program=plain["program"],
            more=plain["more"],
        )
        return cls(
            name=plain["name"],
            driver=SnapshotDriver(plain["driver"]),
            made_at=datetime.datetime.fromisoformat(plain["made_at"]),
            ended_at=datetime.datetime.fromisoformat(plain["ended_at"]),
            content=content,
            **{key: plain[key] for key in ("lane", "schema", "cluster_id", "topics", "rate", "files", "bytes", "sums")},
        )
