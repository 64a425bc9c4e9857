"""Running SQL text that was built from quoted names, with `%` meaning nothing but itself."""

from typing import Any

from sqlalchemy import Connection, CursorResult

_NO_PARAMETERS = {"no_parameters": True}


def run(connection: Connection, sql: str) -> CursorResult[Any]:
    """Execute `sql` as it stands."""
    return connection.exec_driver_sql(sql, execution_options=_NO_PARAMETERS)
