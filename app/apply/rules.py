"""The configuration's rules for tables and columns: where they go, and what is left out."""

from app.config.modes import DEFAULT_MODES, Modes
from app.config.routes import Routes
from app.config.settings import ColumnNames, HistorySettings, TargetSettings
from app.config.table_rules import TableRules
from app.model.row_layout import Layout

_COLUMNS_HINT = 'write it like "public.customers": {exclude: [ssn], rename: {name: full_name}}'
_HISTORY_HINT = 'write it like "public.orders": {table: public.orders_history}'
_SOFT_DELETE_HINT = 'write it like "public.orders": {column: deleted_at}'
_EVERY_COLUMN = ColumnNames()


class TargetRules:
    """Target rules of one lane."""

    def __init__(self, config: TargetSettings, modes: Modes = DEFAULT_MODES) -> None:
        """`modes`: what a value's text means where the message has no schema. Raises RouteInvalid."""
        self.config, self.modes = config, modes
        self._routes = Routes(config.tables, config.db_schema)
        self._columns = TableRules(config.columns, _COLUMNS_HINT)
        self._history = TableRules(config.history, _HISTORY_HINT)
        self._soft_delete = TableRules(config.soft_delete, _SOFT_DELETE_HINT)

    def place(self, layout: Layout) -> tuple[str, str] | None:
        """(schema, table) in the target, None when no route takes the layout's table."""
        return self._routes.target(layout.schema, layout.table)

    def names(self, layout: Layout) -> ColumnNames:
        """Which columns of the layout's table go on, and under which names."""
        return self._columns.of(layout.schema, layout.table) or _EVERY_COLUMN

    def history(self, layout: Layout) -> HistorySettings | None:
        """Where the versions of the layout's table are kept; None: they are not."""
        return self._history.of(layout.schema, layout.table)

    def soft_delete(self, layout: Layout) -> str | None:
        """The column that a delete sets, instead of deleting; None: it deletes."""
        found = self._soft_delete.of(layout.schema, layout.table)
        return None if found is None else found.column
