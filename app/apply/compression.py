"""Compresses the values that a table's TOAST stores by lz4, where no other method was chosen.

Postgres (up to 18) compresses by pglz by default, which is half of what long rows cost the server. A choice for a
column, the login's role, the database or the server is kept, and a server without lz4 stays as it is:
https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-DEFAULT-TOAST-COMPRESSION
"""

from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.pool import ConnectionPoolEntry

_CHOOSE = """
    select set_config(name, 'lz4', false) from pg_settings
    where name = 'default_toast_compression' and source = 'default' and 'lz4' = any(enumvals)
"""


def compress_by_lz4(engine: Engine) -> Engine:
    """Set it for the connections that this engine makes from now on; returns the engine."""

    @event.listens_for(engine, "connect")
    def choose(dbapi_connection: Any, _: ConnectionPoolEntry) -> None:
        with dbapi_connection.cursor() as cursor:
            cursor.execute(_CHOOSE)
        dbapi_connection.commit()

    return engine
