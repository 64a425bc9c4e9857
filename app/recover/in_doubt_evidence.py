"""The evidence on a lane's prepared transaction: from the checkpoint, the ledger and the lane's lock."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from app.db.locks import lock_holder
from app.errors import Diverged, EnvironmentMissing, Refused
from app.ledger.store import Ledger
from app.model.gid import Gid
from app.model.offsets import Offsets, Span
from app.spark.entries import Entries
from app.spark.local import LocalCheckpoint, local_folder


@dataclass(frozen=True, kw_only=True)
class InDoubtEvidence:
    """Everything that the verdict is derived from. None: not known."""

    #: backend pid of the session that holds the lane's lock; None: the lock is free, the lane does not run
    holder: int | None
    #: where the checkpoint was read
    location: str
    #: whether that is the copy named on the command line, not the configured checkpoint
    copy: bool
    #: its id; None: there is no checkpoint, or it cannot be read
    checkpoint: str | None
    #: newest generation that ran on the checkpoint
    newest_generation: int | None
    #: why the checkpoint could not be read
    trouble: str | None
    #: id of the checkpoint that the transaction's generation ran on; None: the ledger has no such generation
    of_generation: str | None
    #: id of the checkpoint that the lane ran on last, by the ledger
    current: str | None
    #: offsets/N exists
    planned: bool | None
    #: commits/N exists
    complete: bool | None
    #: the epoch's ledger row is visible
    ledger_row: bool
    #: the epoch's span
    span: Span | None

    def as_json(self) -> dict[str, Any]:
        """For `--json` and for the record of an answer."""
        span = {"start": self.span.start.nested(), "end": self.span.end.nested()} if self.span else None
        return asdict(self) | {"span": span}


@dataclass(frozen=True)
class EvidenceSource:
    """Where a checkpoint is; without `entries` it cannot be read from here."""

    location: str
    entries: Entries | None
    copy: bool = False


def source_of(configured: str, copy: Path | None) -> EvidenceSource:
    """The configured checkpoint, or its `copy`; raises Refused for a copy that is no checkpoint."""
    if copy is not None:
        entries = LocalCheckpoint(copy.absolute())
        if entries.identity() is None:
            raise Refused(f"{copy.absolute()} is no checkpoint of Surelane: it has no surelane.json")
        return EvidenceSource(entries.location, entries, copy=True)
    folder = local_folder(configured)
    return EvidenceSource(configured, LocalCheckpoint(folder) if folder else None)


def evidence(
    connection: Connection, ledger: Ledger, gid: Gid, source: EvidenceSource, *, mine: bool = False
) -> InDoubtEvidence:
    """Collect the evidence. `mine`: this session itself holds the lane's lock."""
    of_generation = ledger.checkpoints(connection)
    row = ledger.lane_row(connection)
    known: dict[str, Any] = {
        "checkpoint": None,
        "newest_generation": None,
        "trouble": None,
        "planned": None,
        "complete": None,
        "span": None,
    }
    return InDoubtEvidence(
        holder=None if mine else lock_holder(connection, ledger.lane),
        location=source.location,
        copy=source.copy,
        of_generation=of_generation.get(gid.generation),
        current=of_generation.get(row.generation) if row else None,
        ledger_row=ledger.find(connection, gid.generation, gid.epoch) is not None,
        **(known | _of_checkpoint(gid, source, of_generation)),
    )


def _of_checkpoint(gid: Gid, source: EvidenceSource, of_generation: Mapping[int, str]) -> dict[str, Any]:
    if source.entries is None:
        return {"trouble": "it is not on a disk of this machine, and reading it there takes Spark"}
    try:
        identity = source.entries.identity()
        if identity is None:
            return {"trouble": "there is none"}
        seen = {"checkpoint": identity.checkpoint, "newest_generation": identity.generation}
        if identity.checkpoint != of_generation.get(gid.generation):
            return seen  # another checkpoint numbers its epochs differently
        planned, complete = source.entries.is_planned(gid.epoch), source.entries.is_complete(gid.epoch)
        return seen | {"planned": planned, "complete": complete, "span": _span(source.entries, gid)}
    except (Diverged, EnvironmentMissing) as error:
        return {"trouble": error.message}


def _span(entries: Entries, gid: Gid) -> Span | None:
    """The epoch's span; only the gid's partition where each partition has its own lane."""
    try:
        span = entries.span(gid.epoch)
    except Diverged:
        return None  # Spark keeps only the newest entries, and a copy may lack some
    partition = gid.lane.partition(".")[2]
    mine = {tp for tp in span.end if not partition or tp.partition == int(partition)}
    return Span(start=Offsets.of({tp: span.start[tp] for tp in mine}), end=span.end.only(mine))
