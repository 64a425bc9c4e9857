"""What the configuration says of tables and columns: where they go, and what is left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.config.columns import Columns
from app.config.modes import DEFAULT_MODES, Modes
from app.config.routes import Routes
from app.config.settings import OnTruncate, SchemaEvolution, Target, UnknownColumn, UnknownTable


@dataclass(frozen=True, kw_only=True)
class Rules:
    """For one lane."""

    routes: Routes
    unknown_table: UnknownTable = UnknownTable.STOP
    unknown_column: UnknownColumn = UnknownColumn.STOP
    schema_evolution: SchemaEvolution = SchemaEvolution.STOP
    on_truncate: OnTruncate = OnTruncate.STOP
    columns: Columns = field(default_factory=lambda: Columns({}))
    #: target schema.table -> the columns that a row is known by, in place of its primary key
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: what a value's text means where the message has no schema
    modes: Modes = DEFAULT_MODES

    @classmethod
    def of(cls, target: Target, modes: Modes = DEFAULT_MODES) -> "Rules":
        """As configured."""
        return cls(
            routes=Routes(target.tables),
            unknown_table=target.unknown_table,
            unknown_column=target.unknown_column,
            schema_evolution=target.schema_evolution,
            on_truncate=target.on_truncate,
            columns=Columns({tables: names.rule for tables, names in target.columns.items()}),
            keys=target.keys,
            modes=modes,
        )
