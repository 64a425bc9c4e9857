"""The tables of a replay: made like the target's, and empty.

In the same database by CREATE TABLE (LIKE ... INCLUDING ALL), plus foreign keys among them and their own sequences. In
another database by pg_dump of all definitions, unless the tables exist there.
"""

import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, text
from sqlalchemy.engine import URL

from app.apply.target_tables import load_table
from app.config.routes import Routes
from app.config.settings import Settings
from app.db.sql import literal, quoted, run
from app.errors import Refused
from app.replay.destination import NAME, Name, RebuildPlace
from app.snapshot import postgres_programs as programs
from app.snapshot.postgres_programs import Connecting, Programs
from app.snapshot.snapshot_directory import Progress
from app.snapshot.target_info import server
from app.verify.pairs import OWN_MARK, table_names

_MARKED = text("""
    select nspname from pg_namespace where starts_with(obj_description(oid, 'pg_namespace'), :mark) order by 1
""")
_FOREIGN_KEYS = text("""
    select c.conname, c.confrelid, pg_get_constraintdef(c.oid) definition,
           quote_ident(n.nspname) || '.' || quote_ident(p.relname) parent, n.nspname, p.relname
    from pg_constraint c join pg_class p on p.oid = c.confrelid join pg_namespace n on n.oid = p.relnamespace
    where c.conrelid = cast(:oid as oid) and c.contype = 'f' and c.conparentid = 0 order by c.conname collate "C"
""")
_SEQUENCES = text("""
    select a.attname, s.relname, format_type(q.seqtypid, null) as type, quote_literal(s.oid::regclass::text) as old,
           pg_get_expr(d.adbin, d.adrelid) as value
    from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum and a.attgenerated = ''
    join pg_depend p on p.classid = 'pg_attrdef'::regclass and p.objid = d.oid and p.refclassid = 'pg_class'::regclass
    join pg_class s on s.oid = p.refobjid and s.relkind = 'S' join pg_sequence q on q.seqrelid = s.oid
    where d.adrelid = cast(:oid as oid) order by 1
""")
_TRIGGERS = text("""
    select tgname from pg_trigger where tgrelid = cast(:oid as oid) and not tgisinternal and tgenabled <> 'D' order by 1
""")


@dataclass(frozen=True)
class OriginalTable:
    """A table of the target that the lane writes."""

    name: Name
    oid: int

    def __str__(self) -> str:
        return ".".join(self.name)


def originals(connection: Connection, settings: Settings) -> list[OriginalTable]:
    """The tables that a route reaches; raises Refused when there are none."""
    routes, found = Routes(settings.target.tables), list[OriginalTable]()
    for name in table_names(connection, settings.target.db_schema):
        table = load_table(connection, *name) if routes.reaches(*name) else None
        if table is not None:
            found.append(OriginalTable(name, table.oid))
    if not found:
        raise Refused("the target has no table that a route reaches", hint="look at target.tables: surelane doctor")
    return found


def check_place(place: RebuildPlace, originals_: Sequence[OriginalTable]) -> None:
    """Raises Refused for a schema that the lane itself uses, and for tables that would have the same name there."""
    if place.schema is None:
        return
    used = {place.settings.target.db_schema, *(one.name[0] for one in originals_)}
    if place.schema in used or place.own in used:
        raise Refused(f"schema {place.schema} is one that the lane itself uses", hint="name another one, a new one say")
    several = [name for name, count in Counter(one.name[1] for one in originals_).items() if count > 1]
    if several:
        hint = "replay into another database, --into postgresql://..., where they keep their schemas"
        raise Refused(f"several schemas of the target have a table {', '.join(several)}", hint=hint)


def missing(connection: Connection, place: RebuildPlace, originals_: Sequence[OriginalTable]) -> list[OriginalTable]:
    """Tables that do not exist there yet."""
    return [one for one in originals_ if load_table(connection, *place.name_of(one.name)) is None]


def with_rows(connection: Connection, place: RebuildPlace, originals_: Sequence[OriginalTable]) -> list[str]:
    """Names of the tables that exist there and are not empty."""
    found: list[str] = []
    for one in originals_:
        name = place.name_of(one.name)
        if load_table(connection, *name) is None:
            continue
        if run(connection, f"select exists (select from {_sql(name)})").scalar_one():  # noqa: S608  # quoted
            found.append(".".join(name))
    return found


def drop(connection: Connection, place: RebuildPlace, originals_: Sequence[OriginalTable]) -> None:
    """Drop the tables that exist there."""
    names = [place.name_of(one.name) for one in originals_]
    if there := [_sql(name) for name in names if load_table(connection, *name) is not None]:
        run(connection, f"drop table {', '.join(there)}")


def empty(connection: Connection, place: RebuildPlace, originals_: Sequence[OriginalTable]) -> None:
    """Truncate the tables that exist there."""
    names = [place.name_of(one.name) for one in originals_]
    if there := [_sql(name) for name in names if load_table(connection, *name) is not None]:
        run(connection, f"truncate {', '.join(there)}")


def copy_here(
    connection: Connection, place: RebuildPlace, missing_: Sequence[OriginalTable], all_: Sequence[OriginalTable]
) -> list[str]:
    """Make the missing tables in the schema of this database; returns what was left out, in words."""
    run(connection, "set local search_path = ''")  # makes pg_get_constraintdef and others qualify names
    for one in missing_:
        run(connection, f"create table {_sql(place.name_of(one.name))} (like {_sql(one.name)} including all)")
        _give_sequences(connection, place, one)
    oids = {other.oid for other in all_}
    return [
        part
        for one in missing_
        for part in (*_add_foreign_keys(connection, place, one, oids), *_triggers(connection, one))
    ]


def _give_sequences(connection: Connection, place: RebuildPlace, one: OriginalTable) -> None:
    """Give the table its own sequences: its defaults must not advance the target's."""
    schema, table = place.name_of(one.name)
    for row in connection.execute(_SEQUENCES, {"oid": one.oid}).mappings().all():
        own = f"{quoted(schema)}.{quoted(row['relname'])}"
        run(connection, f"create sequence if not exists {own} as {row['type']}")
        value = row["value"].replace(f"{row['old']}::regclass", f"{literal(own)}::regclass")
        column = quoted(row["attname"])
        run(connection, f"alter table {_sql((schema, table))} alter column {column} set default {value}")
        run(connection, f"alter sequence {own} owned by {_sql((schema, table))}.{column}")  # dropped with the column


def _add_foreign_keys(
    connection: Connection, place: RebuildPlace, one: OriginalTable, oids: Collection[int]
) -> Iterator[str]:
    for row in connection.execute(_FOREIGN_KEYS, {"oid": one.oid}).all():
        if row.confrelid not in oids:
            yield f"foreign key {row.conname} of {one}: it points at {row.nspname}.{row.relname}, which is not replayed"
            continue
        parent = _sql(place.name_of((row.nspname, row.relname)))
        definition = row.definition.replace(f" REFERENCES {row.parent}(", f" REFERENCES {parent}(", 1)
        table = _sql(place.name_of(one.name))
        run(connection, f"alter table {table} add constraint {quoted(row.conname)} {definition}")


def _triggers(connection: Connection, one: OriginalTable) -> Iterator[str]:
    for name in connection.execute(_TRIGGERS, {"oid": one.oid}).scalars():
        yield f"trigger {name} of {one}: what it does might not stay in the replay"


def copy_there(target: Connection, place: RebuildPlace, progress: Progress) -> None:
    """Make the definitions of the target's database, without Surelane's own schemas, in another database."""
    settings = place.settings
    major, folder = server(target).major, settings.snapshots.bin_dir
    found = Programs(Path(folder) if folder else None)
    dump, restore = (found.find(name, at_least=major) for name in ("pg_dump", "pg_restore"))
    programs.restores_into(restore, major)
    marked = target.execute(_MARKED, {"mark": OWN_MARK}).scalars().all()
    role = settings.target.owner_role
    with tempfile.TemporaryDirectory(prefix="surelane-") as there:
        file = str(Path(there) / "schema.dump")
        words = [
            *("--schema-only", "--format=custom", f"--file={file}", "--no-publications", "--no-subscriptions"),
            *(f"--exclude-schema={quoted(schema)}" for schema in (settings.target.db_schema, *marked)),
            *([f"--role={role}"] if role else []),
        ]
        _run(dump, words, settings.target.url, progress)
        words = ["--exit-on-error", "--single-transaction", "--no-owner", "--no-privileges", file]
        _run(restore, words, place.url, progress)


def _run(program: programs.Program, words: Sequence[str], url: URL, progress: Progress) -> None:
    connecting = Connecting.to(url, NAME)
    programs.run(program, [*words, f"--dbname={connecting.dsn}"], progress, connecting)


def _sql(name: Name) -> str:
    return ".".join(map(quoted, name))
