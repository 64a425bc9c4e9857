"""How far the lane has applied on each side, where the other side is a replay: if they differ, so may the tables."""

from dataclasses import dataclass

from sqlalchemy import text

from app.config.settings import Settings
from app.db.sqlstate import translated
from app.ledger.ledger_tables import LedgerTables, lanes_of
from app.ledger.store import Ledger
from app.model.offsets import Offsets
from app.verify.pairs import Choice
from app.verify.side import DatabaseSide

#: suffix of the replay's schema, behind the name of the schema that it replays into, or of Surelane's in the target
OWN = "_replay"
_EXISTS = text("""
    select count(*) = 2 from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = :schema and c.relname in ('lane', 'ledger') and has_schema_privilege(n.oid, 'usage')
      and has_table_privilege(c.oid, 'select')
""")


@dataclass(frozen=True, kw_only=True)
class SidePositions:
    """Applied positions of each side, read in the snapshots that are compared."""

    target: Offsets
    other: Offsets

    @property
    def apart(self) -> int:
        """Number of offsets between the two positions."""
        return sum(abs(self.target.get(tp, 0) - self.other.get(tp, 0)) for tp in {*self.target, *self.other})


def standing(target: DatabaseSide, other: DatabaseSide, settings: Settings, choice: Choice) -> SidePositions | None:
    """Positions of both sides; None: the other side is no replay."""
    own = f"{choice.schema or settings.target.db_schema}{OWN}"
    mine, theirs = _position(target, settings, settings.target.db_schema), _position(other, settings, own)
    return SidePositions(target=mine, other=theirs) if mine and theirs else None


def _position(side: DatabaseSide, settings: Settings, schema: str) -> Offsets | None:
    several = settings.source.is_by_partition
    lane = LedgerTables.in_schema(schema).lane.c.lane
    with translated(f"verify: reading the ledger of {side.name}"):
        if not side.connection.execute(_EXISTS, {"schema": schema}).scalar_one():
            return None
        names = side.connection.execute(lane.table.select().where(lanes_of(lane, settings.lane, several=several)))
        each = [Ledger(schema, row.lane).last(side.connection) for row in names.all()]
    return Offsets.joined(one.span.end for one in each if one)
