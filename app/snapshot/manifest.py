"""What is on record of a snapshot, beside it, as JSON."""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from app.config.settings import SnapshotDriver
from app.model.offsets import Offsets

#: of the file; a newer one is not read by an older program
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class LanePosition:
    """Where the ledger says that a lane is."""

    lane: str
    generation: int
    #: last one applied; -1: none yet
    epoch: int
    #: where it goes on
    applied: Offsets
    #: up to where it has read; beyond `applied` with epoch.align
    read: Offsets
    #: id of the checkpoint of its newest generation
    checkpoint: str | None = None

    def as_json(self) -> dict[str, Any]:
        """For files and `--json`."""
        positions = {"applied": self.applied.nested(), "read": self.read.nested()}
        names = {"lane": self.lane, "generation": self.generation, "epoch": self.epoch, "checkpoint": self.checkpoint}
        return names | positions

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """From JSON."""
        positions = {name: Offsets.from_nested(plain[name]) for name in ("applied", "read")}
        return cls(**{**plain, **positions})


@dataclass(frozen=True, kw_only=True)
class InDoubtTransaction:
    """A transaction that was prepared."""

    gid: str
    database: str
    owner: str
    prepared_at: str
    age_seconds: float


@dataclass(frozen=True, kw_only=True)
class TargetView:
    """What was seen of the target at one moment."""

    lanes: tuple[LanePosition, ...]
    #: on the whole server, whoever prepared it
    prepared: tuple[InDoubtTransaction, ...] = ()

    @property
    def position(self) -> Offsets:
        """Of all lanes together."""
        return Offsets.of({tp: offset for lane in self.lanes for tp, offset in lane.applied.items()})

    def as_json(self) -> dict[str, Any]:
        """For files and `--json`."""
        return {"lanes": [one.as_json() for one in self.lanes], "prepared": [vars(one) for one in self.prepared]}

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        """From JSON."""
        lanes = tuple(LanePosition.of(one) for one in plain["lanes"])
        return cls(lanes=lanes, prepared=tuple(InDoubtTransaction(**one) for one in plain["prepared"]))


@dataclass(frozen=True, kw_only=True)
class Server:
    """What the target's server is."""

    version: str
    #: as in server_version_num
    number: int
    max_prepared_transactions: int
    database: str
    #: roles that things in the database belong to, or that have privileges on them
    roles: tuple[str, ...] = ()

    @property
    def major(self) -> int:
        return self.number // 10_000


@dataclass(frozen=True, kw_only=True)
class SnapshotContent:
    """What a driver made, and what it knows of it."""

    server: Server
    #: in or before the snapshot: at least so far does it reach
    first: TargetView
    #: after it: no further than this. None: `first` is exact
    last: TargetView | None
    #: of the program that made it
    program: str
    bytes: int | None = None
    #: of the driver's own
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything."""

    name: str
    driver: SnapshotDriver
    #: of the configuration
    lane: str
    #: the ledger's
    schema: str
    made_at: datetime.datetime
    ended_at: datetime.datetime
    content: SnapshotContent
    cluster_id: str | None
    topics: dict[str, str]
    #: messages a second that a lane took when it had many; None: not known
    rate: float | None = None
    files: int = 0
    bytes: int = 0
    #: of the file with the files' checksums
    sums: str = ""
    #: what the first restore found inside
    actual: TargetView | None = None

    @property
    def seen(self) -> TargetView:
        """The best that is known of its content."""
        return self.actual or self.content.first

    @property
    def exact(self) -> bool:
        """Whether `seen` is just that."""
        return self.actual is not None or self.content.last is None

    @property
    def prepared(self) -> Sequence[InDoubtTransaction]:
        """What was prepared while it was made, or is known to be inside."""
        if self.actual:
            return self.actual.prepared
        every = (self.content.first, *([self.content.last] if self.content.last else []))
        return list({one.gid: one for seen in every for one in seen.prepared}.values())

    def with_actual(self, seen: TargetView) -> "Manifest":
        """When it was looked into."""
        return replace(self, actual=seen)

    def as_json(self) -> dict[str, Any]:
        """For the file and `--json`; `actual` has a file of its own."""
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
        """From JSON; raises KeyError, TypeError or ValueError for what is none."""
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
