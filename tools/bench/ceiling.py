"""The rate of Postgres alone: COPY into an UNLOGGED staging table in the order of the keys, one MERGE, one delete.

One connection, a commit for each chunk, rows that are compacted and sorted in advance; the best of several sizes of a
chunk, after one that only warms up. Long rows stay in one piece in staging, and the target compresses long values with
lz4, not with Postgres' default.
"""

import io
import time
from typing import Any

from app.apply.merge import LOOK_UPS
from app.apply.staging import INLINE_BYTES
from tools.bench.backlog import Backlog, Chunk
from tools.bench.machine import Snapshot
from tools.bench.servers import Cursor, Servers
from tools.bench.tables import Table


def measure(servers: Servers, backlog: Backlog) -> dict[str, Any]:
    """Measure messages a second; returns the fields of a result."""
    _once(servers, backlog, backlog.sizes[0])
    done = [_once(servers, backlog, size) for size in backlog.sizes]
    best = min(done, key=lambda one: one["seconds"])
    return {**best, "correct": all(one["correct"] for one in done)}


def _once(servers: Servers, backlog: Backlog, size: int) -> dict[str, Any]:
    servers.empty_database(backlog.shape.ddl, with_ledger=False)
    chunks = list(backlog.chunks(size))
    with servers.connect() as connection, connection.cursor() as cursor:
        cursor.execute("; ".join(["set default_toast_compression = lz4", *map(_staging, backlog.tables)]))
        connection.autocommit = False
        start, begin = Snapshot.of(servers.cpu()), time.monotonic()
        for together in chunks:
            cursor.execute(LOOK_UPS)
            for chunk in together:
                _apply(cursor, backlog.tables[chunk.table], chunk)
            connection.commit()
        seconds = time.monotonic() - begin
        used = Snapshot.of(servers.cpu()).since(start)
    return {
        "seconds": round(seconds, 3),
        "rate": round(backlog.messages / seconds),
        "chunk": size,
        **used,
        "correct": servers.found(backlog.tables) == backlog.expected,
    }


def _apply(cursor: Cursor, table: Table, chunk: Chunk) -> None:
    name, columns = table.name, list(table.columns)
    cursor.execute(f"truncate staged_{name}, gone_{name}")
    if chunk.upserts:
        cursor.copy_expert(f"copy staged_{name} from stdin", io.BytesIO(chunk.upserts), 1 << 20)
        changes = ", ".join([f"{column} = s.{column}" for column in columns[1:]])
        values = ", ".join([f"s.{column}" for column in columns])
        cursor.execute(
            f"merge into {name} t using staged_{name} s on t.id = s.id when matched then update set {changes}"
            f" when not matched then insert ({', '.join(columns)}) values ({values})"
        )
    if chunk.deletes:
        cursor.copy_expert(f"copy gone_{name} from stdin", io.BytesIO(chunk.deletes))
        cursor.execute(f"delete from {name} using gone_{name} g where {name}.id = g.id")


def _staging(table: Table) -> str:
    name = table.name
    texts = [column for column, kind in table.columns.items() if kind.ddl == "text"]
    whole = ", ".join([f"alter column {column} set storage external" for column in texts])
    return (
        f"create unlogged table staged_{name} (like {name}) with (toast_tuple_target = {INLINE_BYTES}); "
        f"alter table staged_{name} {whole}; create unlogged table gone_{name} (id bigint)"
    )
