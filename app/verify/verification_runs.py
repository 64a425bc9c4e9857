"""The last comparisons of a lane with what they found, in the target. Methods work in the caller's transaction."""

import datetime
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Identity,
    Integer,
    MetaData,
    RowMapping,
    Table,
    Text,
    delete,
    desc,
    insert,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.config.redaction import Redaction
from app.verify.outcome_document import redacted
from app.verify.verification_records import Verification

#: runs that are kept of each lane
KEEP_RUNS = 50
_FACTS = ("id", "lane", "against", "tables", "rows", "differing")


@dataclass(frozen=True, kw_only=True)
class VerificationRun:
    """A comparison that ended."""

    id: int
    lane: str
    at: datetime.datetime
    against: str
    #: number of compared tables
    tables: int
    rows: int
    differing: int
    #: `app.verify.outcome_document`; None where only the facts were read
    result: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        facts = {name: getattr(self, name) for name in _FACTS}
        return facts | {"at": self.at.isoformat(), "equal": self.differing == 0}

    def document(self, redaction: Redaction) -> dict[str, Any]:
        """What it found. A column is hidden if a rule of any table names it: the document has the target's tables, the
        rules the source's."""
        return redacted(self.result or {"tables": []}, redaction.columns(None, None))


class VerificationRuns:
    """The runs of `lane`, in the schema that `target.schema` names."""

    def __init__(self, schema: str, lane: str) -> None:
        self._lane = lane
        self._table = Table(
            "verification_run",
            MetaData(schema=schema),
            Column("id", BigInteger, Identity(always=True), primary_key=True),
            Column("lane", Text),
            Column("at", DateTime(timezone=True)),
            Column("against", Text),
            Column("tables", Integer),
            *(Column(name, BigInteger) for name in ("rows", "differing")),
            Column("result", JSONB),
        )

    def write(self, connection: Connection, done: Verification, result: dict[str, Any]) -> None:
        """Keep a run; the oldest go."""
        facts = {name: getattr(done, name) for name in ("against", "tables", "rows", "differing")}
        connection.execute(insert(self._table).values(lane=self._lane, result=result, **facts))
        table = self._table.c
        newest = select(table.id).where(table.lane == self._lane).order_by(desc(table.id)).limit(KEEP_RUNS)
        connection.execute(delete(self._table).where(table.lane == self._lane, table.id.not_in(newest)))

    def newest(self, connection: Connection) -> list[VerificationRun]:
        """Facts of all kept runs, the newest first."""
        table = self._table.c
        columns = [table[name] for name in (*_FACTS, "at")]
        statement = select(*columns).where(table.lane == self._lane).order_by(desc(table.id))
        return [_run(row) for row in connection.execute(statement).mappings()]

    def find(self, connection: Connection, number: int) -> VerificationRun | None:
        """One run with its result."""
        mine = (self._table.c.lane == self._lane, self._table.c.id == number)
        row = connection.execute(select(self._table).where(*mine)).mappings().first()
        return None if row is None else _run(row)


def _run(row: RowMapping) -> VerificationRun:
    return VerificationRun(**row)
