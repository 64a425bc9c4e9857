"""The columns of a query's views of changes: those of the target's tables, which the changes go to."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Engine

from app.apply.target_tables import load_table
from app.config.routes import Routes
from app.config.settings import ColumnNames, Settings
from app.config.table_rules import TableRules
from app.db.sqlstate import translated
from app.errors import ConfigInvalid, TargetMismatch
from app.query.column_types import TypedColumn, typed


def columns_of(settings: Settings, engine: Engine) -> Mapping[str, Sequence[TypedColumn]]:
    """By source table. `settings`: the query's; `engine`: of the target. Raises TargetMismatch, ConfigInvalid,
    Unreachable."""
    query = settings.query
    assert query is not None, "the settings are a query's"
    routes, found = Routes(settings.target.tables), dict[str, Sequence[TypedColumn]]()
    rules = TableRules(settings.target.columns, "see docs/CONFIG.md")
    with translated(f"lane {settings.lane}: reading the catalog"), engine.connect() as connection:
        for source in query.changes:
            target = routes.target(*source.split(".", 1))
            if target is None:
                raise ConfigInvalid(
                    f"queries: {settings.lane}: no route of target.tables takes {source}",
                    hint="its columns have the types of the target's table: add a route, or a table of this name",
                )
            table = load_table(connection, *target)
            if table is None:
                raise TargetMismatch(
                    f"lane {settings.lane}: there is no table {'.'.join(target)}, whose types the columns of "
                    f"{source} have",
                    hint="create it as it is at the source; it may be empty",
                )
            names = rules.of(*source.split(".", 1)) or ColumnNames()
            fields = {called: field for field, called in names.rename.items()}
            found[source] = [typed(one, fields.get(one.name, one.name), settings.source.modes) for one in table.columns]
    return found
