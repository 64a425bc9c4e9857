"""What this server takes when nothing is in front of it: COPY into an UNLOGGED staging table, one upsert, one delete.

One connection, a commit each chunk, rows that are ready, folded and sorted: an upper bound for everything that merges
by set on one connection.
"""

import io
import time

from bench.backlog import Backlog, Chunk
from bench.machine import Snapshot
from bench.servers import Cursor, Servers

_STAGING = "create unlogged table staged (like bench); create unlogged table gone (id bigint)"
_UPSERT = """
    insert into bench select * from staged order by id
    on conflict (id) do update set account = excluded.account, amount = excluded.amount, status = excluded.status,
        note = excluded.note, updated_at = excluded.updated_at
"""
_DELETE = "delete from bench using gone where bench.id = gone.id"


def measure(servers: Servers, backlog: Backlog) -> dict[str, object]:
    """Messages a second, as the fields of a result."""
    servers.empty_database(with_ledger=False)
    chunks = backlog.chunks()
    with servers.connect() as connection, connection.cursor() as cursor:
        cursor.execute(_STAGING)
        connection.autocommit = False
        start, begin = Snapshot.of(servers.cpu()), time.monotonic()
        for chunk in chunks:
            _apply(cursor, chunk)
            connection.commit()
        seconds = time.monotonic() - begin
        used = Snapshot.of(servers.cpu()).since(start)
    return {
        "seconds": round(seconds, 3),
        "rate": round(backlog.messages / seconds),
        **used,
        "correct": servers.found() == backlog.expected,
    }


def _apply(cursor: Cursor, chunk: Chunk) -> None:
    cursor.execute("truncate staged, gone")
    cursor.copy_expert("copy staged from stdin", io.BytesIO(chunk.upserts), 1 << 20)
    cursor.execute(_UPSERT)
    if chunk.deletes:
        cursor.copy_expert("copy gone from stdin", io.BytesIO(chunk.deletes))
        cursor.execute(_DELETE)
