"""The rate of Postgres alone: COPY into an UNLOGGED staging table in the order of the keys, one MERGE, one delete.

One connection, a commit for each chunk, rows that are compacted and sorted in advance, times as microseconds, which
Postgres need not parse; the best of several sizes of a chunk, after one that only warms up. Long rows stay in one piece
in staging, and the target compresses long values with lz4, not with Postgres' default.
"""

import io
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from app.apply.merge import LOOK_UPS
from app.apply.staging import INLINE_BYTES
from app.stage.instants import loaded
from app.stage.request import Instant
from tools.testbed.backlog import Backlog, Chunk
from tools.testbed.machine import Snapshot
from tools.testbed.servers import Cursor, Servers
from tools.testbed.tables import Table

#: a time that is staged as microseconds
_EPOCH = "timestamptz 'epoch' + s.{} * interval '1 microsecond'"


def measure(servers: Servers, backlog: Backlog) -> dict[str, Any]:
    """Measure messages a second; returns the fields of a result."""
    _once(servers, backlog, backlog.sizes[0])
    done = [_once(servers, backlog, size) for size in backlog.sizes]
    best = min(done, key=lambda one: one["seconds"])
    return {**best, "correct": all(one["correct"] for one in done)}


def _once(servers: Servers, backlog: Backlog, size: int) -> dict[str, Any]:
    servers.empty_database(backlog.shape.ddl, with_ledger=False)
    chunks = [[_ready(backlog.tables[one.table], one) for one in together] for together in backlog.chunks(size)]
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
    name, columns, times = table.name, list(table.columns), list(_times(table))
    cursor.execute(f"truncate staged_{name}, gone_{name}")
    if chunk.upserts:
        staged = ", ".join([*columns, *(one.column for one in times)])
        cursor.copy_expert(f"copy staged_{name} ({staged}) from stdin", io.BytesIO(chunk.upserts), 1 << 20)
        sources = {column: f"s.{column}" for column in columns}
        sources |= {columns[one.index]: _EPOCH.format(one.column) for one in times}
        changes = ", ".join([f"{column} = {sources[column]}" for column in columns[1:]])
        values = ", ".join(sources.values())
        cursor.execute(
            f"merge into {name} t using staged_{name} s on t.id = s.id when matched then update set {changes}"
            f" when not matched then insert ({', '.join(columns)}) values ({values})"
        )
    if chunk.deletes:
        cursor.copy_expert(f"copy gone_{name} from stdin", io.BytesIO(chunk.deletes))
        cursor.execute(f"delete from {name} using gone_{name} g where {name}.id = g.id")


def _times(table: Table) -> Iterator[Instant]:
    """The columns that are staged as microseconds."""
    for index, (column, kind) in enumerate(table.columns.items()):
        if kind.ddl == "timestamptz":
            yield Instant(index, f"micros_{column}", 0)


def _ready(table: Table, chunk: Chunk) -> Chunk:
    """The chunk with microseconds behind each line, and NULL in place of their texts."""
    if not (times := list(_times(table))) or not chunk.upserts:
        return chunk
    lines = pa.array(chunk.upserts.splitlines(keepends=True), pa.binary()).view(pa.string())
    ready = loaded().lines(lines, np.arange(len(lines)), times)
    assert ready is not None, "few enough"
    return replace(chunk, upserts=b"".join(ready.view(pa.binary()).to_pylist()))


def _staging(table: Table) -> str:
    name = table.name
    texts = [column for column, kind in table.columns.items() if kind.ddl == "text"]
    whole = ", ".join([f"alter column {column} set storage external" for column in texts])
    whole += "".join(f", add {one.column} bigint" for one in _times(table))
    return (
        f"create unlogged table staged_{name} (like {name}) with (toast_tuple_target = {INLINE_BYTES}); "
        f"alter table staged_{name} {whole}; create unlogged table gone_{name} (id bigint)"
    )
