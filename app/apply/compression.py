"""How the values that a table's TOAST is to hold are compressed: by lz4, where nobody has chosen.

Postgres (up to 18) compresses by pglz unless it is told otherwise, which is half of what long rows cost the server.
What is said for a column, the login's role, the database or the server is left as it is, and a server without lz4, too:
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
    """The same engine; holds for the connections it makes from now on."""

    @event.listens_for(engine, "connect")
    def choose(dbapi_connection: Any, _: ConnectionPoolEntry) -> None:
        with dbapi_connection.cursor() as cursor:
            cursor.execute(_CHOOSE)
        dbapi_connection.commit()

    return engine
