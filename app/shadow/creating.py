"""Makes a shadow copy, in one transaction of the target."""

import datetime
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

from app.apply.order_plan import parents_first
from app.apply.target_tables import Column, TargetTable, load_table
from app.config.routes import Routes
from app.config.settings import Settings
from app.config.values import MAX_NAME_BYTES
from app.db.sql import literal, quoted, run
from app.errors import Refused
from app.kafka.broker import Broker
from app.ledger.connection import connected
from app.ledger.shadow_copies import ShadowCopies, ShadowCopy, ShadowState, TableName
from app.ledger.store import FROM_LEDGER, Ledger
from app.model.epoch import EpochRecord
from app.model.last import LastMessages
from app.model.offsets import Offsets
from app.quarantine.quarantine import Quarantine
from app.replay.destination import RebuildPlace
from app.replay.rebuilt_tables import OriginalTable, check_place, copy_here, missing, originals
from app.savepoint.compatibility import compare
from app.savepoint.fingerprint import items
from app.savepoint.savepoint import Savepoint
from app.verify.pairs import OWN_MARK, table_names

#: name of its sessions
APPLICATION = "surelane shadow"
#: behind the name of the copy's schema: the schema of the original tables after the switch
OLD = "_old"
#: items whose change leaves the target's present rows as another configuration made them
_REMADE = ("columns", "sql", "transform")
#: what the switch needs: tables change their schemas
_LACKING = text("""
    select format('grant create on database %I to %I', current_database(), current_user) as statement
    where not has_database_privilege(current_database(), 'create')
    union
    select format('grant create on schema %I to %I', n.nspname, current_user)
    from pg_namespace n join pg_class c on c.relnamespace = n.oid
    where c.oid = any(:oids) and not has_schema_privilege(n.oid, 'create')
    union
    select format('alter table %s owner to %I', c.oid::regclass, current_user)
    from pg_class c where c.oid = any(:oids) and not pg_has_role(c.relowner, 'usage')
    order by 1 desc
""")
_GRANTS = text("""
    select pg_get_userbyid(c.relowner) as owner, a.privilege_type as privilege, a.is_grantable,
           case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as grantee
    from pg_class c left join lateral aclexplode(c.relacl) a on true where c.oid = cast(:oid as oid)
""")


@dataclass(frozen=True, kw_only=True)
class Created:
    copy: ShadowCopy
    #: where the second lane goes on
    position: Offsets
    #: rows by table, as it is named after the switch; empty where the topics fill the copy
    rows: dict[str, int]
    #: what was not made, in words
    left_out: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class _Fill:
    """What a copy's table gets from an original one."""

    source: OriginalTable
    copy: TargetTable


def create(
    settings: Settings, savepoint: Savepoint, into: str, *, from_topics: bool, by: str, progress: Callable[[str], None]
) -> Created:
    """Make the copy for the lane of `settings`, the new configuration. `into`: its schema. `from_topics`: leave it
    empty; the second lane begins at the topics' first messages. Raises Refused, with nothing changed."""
    original = _original(settings, savepoint)
    place = RebuildPlace.parse(original, into)
    old_schema = f"{into}{OLD}"
    if place.is_elsewhere or len(old_schema.encode()) > MAX_NAME_BYTES:
        raise Refused(
            f"--into {place.shown}: a schema of the target's database, whose name leaves room for {OLD}",
            hint="a copy in another database has a configuration with that target.url: --original OLD.yaml, no --into",
        )
    check_configuration(settings, savepoint, from_topics=from_topics)
    with (
        connected(settings, APPLICATION, "shadow: making the copy") as connection,
        Broker(settings.source) as broker,
    ):
        pins = broker.cluster_id(), broker.topic_ids()
        start = beginnings(broker) if from_topics else Offsets()
        with connection.begin():
            run(connection, "set transaction isolation level repeatable read")
            copies = ShadowCopies(settings.target.db_schema)
            if copies.find(connection, settings.lane) is not None:  # its tables have rows, and it needs them
                raise has_copy(settings.lane, original.lane)
            tables = originals(connection, original)
            check_place(place, tables)
            _check_privileges(connection, tables)
            last = last_of(connection, original)
            Ledger(settings.target.db_schema, original.lane).pin(connection, *pins)
            left_out = _make(connection, place, settings, tables, savepoint.name)
            fills = _fills(connection, place, tables, from_topics=from_topics)
            copy = ShadowCopy(
                lane=settings.lane,
                original=original.lane,
                savepoint=savepoint.name,
                copy_schema=into,
                old_schema=old_schema,
                old_tables=[one.name for one in tables],
                new_tables=[(_schema_of(settings, one.name, tables), one.name) for one in _copied(connection, into)],
                state=ShadowState.FOLLOWING,
                by=by,
                at=datetime.datetime.now(datetime.UTC),
            )
            if not copies.add(connection, copy):
                raise has_copy(settings.lane, original.lane)
            rows = {} if from_topics else _fill(connection, fills, progress)
            position = start if from_topics else last.span.end
            begin_lane(connection, settings, position, {} if from_topics else last.last, pins)
    return Created(copy=copy, position=position, rows=rows, left_out=left_out)


def has_copy(lane: str, original: str) -> Refused:
    """The error where a lane has a copy: perhaps an earlier call made it, and did not learn that."""
    return Refused(
        f"lane {lane} or lane {original} has a shadow copy already",
        hint="surelane shadow status shows it; surelane shadow dispose removes it",
    )


def _original(settings: Settings, savepoint: Savepoint) -> Settings:
    """The settings of the lane whose tables are copied, as far as a copy needs them."""
    if savepoint.lane == settings.lane:
        raise Refused(
            f"the configuration is of lane {settings.lane}, as the savepoint is",
            hint="give the new configuration another lane name and another checkpoint",
        )
    target = settings.target.model_copy(update={"tables": dict(savepoint.items["routes"])})
    return settings.model_copy(update={"lane": savepoint.lane, "target": target})


def check_configuration(
    settings: Settings, savepoint: Savepoint, *, from_topics: bool, elsewhere: bool = False
) -> None:
    """Raises Refused for a configuration that cannot follow the savepoint's lane. `elsewhere`: the copy is in another
    database, with a ledger of its own."""
    if settings.source.is_by_partition or savepoint.items["order"] != settings.source.order.value:
        raise Refused("a shadow copy is of one lane over all partitions", hint="source.order: total, in both")
    results = compare(savepoint.items, items(settings))
    for fixed in ("topics", "format", *(() if elsewhere else ("schema",))):
        if bad := [one for one in results if one.item.partition(":")[0] == fixed and one.compatibility != "same"]:
            raise Refused(f"{bad[0].item}: {bad[0].why}", hint="the copy follows the original's topics")
    remade = [one.item for one in results if one.item.partition(":")[0] in _REMADE and one.compatibility != "same"]
    if remade and not from_topics:
        raise Refused(
            f"{', '.join(remade)}: the target's present rows are as the old configuration made them",
            hint="--from-topics makes them anew from the topics' first messages",
        )


def _check_privileges(connection: Connection, tables: Sequence[OriginalTable]) -> None:
    oids = [one.oid for one in tables]
    if lacking := connection.execute(_LACKING, {"oids": oids}).scalars().all():
        user = connection.execute(text("select current_user")).scalar_one()
        raise Refused(f"role {user} may not move the tables to another schema", hint="; ".join(lacking))


def last_of(connection: Connection, original: Settings) -> EpochRecord:
    """The original's last ledger row. Raises Refused where rows of the target are not all that its position says."""
    schema = original.target.db_schema
    last = Ledger(schema, original.lane).last(connection)
    if last is None:
        raise Refused(
            f"the ledger in schema {schema} has no row of lane {original.lane}",
            hint="the new configuration has to name the same target",
        )
    waiting = Quarantine(schema, original.lane).waiting(connection)
    if keys := sum(one.keys for one in waiting):
        raise Refused(
            f"lane {original.lane} has {keys:,} keys whose changes wait in quarantine: the copy's lane would not know",
            hint="release or discard them first: surelane quarantine list; or --from-topics, which decides anew",
        )
    return last


def beginnings(broker: Broker) -> Offsets:
    """The first offset of each partition. Raises Refused where it is not the topic's first message."""
    marks = broker.watermarks(broker.partitions())
    if gone := {tp: mark.low for tp, mark in marks.items() if mark.low}:
        first = ", ".join(f"{tp} begins at {low:,}" for tp, low in sorted(gone.items()))
        raise Refused(
            f"--from-topics: Kafka no longer has every message: {first}",
            hint="leave it out: the copy is filled from the target's rows",
        )
    return Offsets.of(dict.fromkeys(marks, 0))


def _make(
    connection: Connection, place: RebuildPlace, settings: Settings, tables: Sequence[OriginalTable], savepoint: str
) -> list[str]:
    """Make the tables that do not exist in the copy's schema yet and that the new configuration may write."""
    assert place.schema is not None, "checked"
    run(connection, f"create schema if not exists {quoted(place.schema)}")
    comment = literal(f"{OWN_MARK}shadow copy for lane {settings.lane}, savepoint {savepoint}")
    run(connection, f"comment on schema {quoted(place.schema)} is {comment}")
    routes = Routes(settings.target.in_schema(place.schema).tables)
    wanted = [one for one in tables if routes.reaches(place.schema, one.name[1])]
    new = missing(connection, place, wanted)
    left_out = copy_here(connection, place, new, wanted)
    for one in new:
        _grant(connection, one, place.name_of(one.name))
    return left_out


def _grant(connection: Connection, one: OriginalTable, name: TableName) -> None:
    """Give the copy's table the original's owner and privileges, where this role may."""
    table = ".".join(map(quoted, name))
    owner = ""
    for row in connection.execute(_GRANTS, {"oid": one.oid}).all():
        owner = row.owner
        if row.privilege is not None:
            more = " with grant option" if row.is_grantable else ""
            run(connection, f"grant {row.privilege} on table {table} to {row.grantee}{more}")
    if owner:
        run(connection, f"alter table {table} owner to {quoted(owner)}")


def _copied(connection: Connection, schema: str) -> list[TargetTable]:
    names = table_names(connection, "", only=schema)
    return [found for name in names if (found := load_table(connection, *name)) is not None]


def _schema_of(settings: Settings, table: str, tables: Collection[OriginalTable]) -> str:
    """Schema that the copy's table gets by the switch."""
    routes = Routes(settings.target.tables)
    same = {one.name[0] for one in tables if one.name[1] == table and routes.reaches(*one.name)}
    named = {schema for schema in routes.schemas() if routes.reaches(schema, table)}
    found = same or named
    if len(found) != 1:
        raise Refused(
            f"table {table} of the copy: no route of the new configuration leads to it"
            if not found
            else f"table {table} of the copy: routes lead to it in schemas {', '.join(sorted(found))}",
            hint="drop it, or name it in target.tables",
        )
    return found.pop()


def _fills(
    connection: Connection, place: RebuildPlace, tables: Sequence[OriginalTable], *, from_topics: bool
) -> list[_Fill]:
    """Which of the copy's tables is filled from which original one. Raises Refused for one that has rows, and for one
    without an original of its name."""
    assert place.schema is not None, "checked"
    by_name = {one.name[1]: one for one in tables}
    found: list[_Fill] = []
    for copy in parents_first(_copied(connection, place.schema)):
        check_empty(connection, [copy])
        if from_topics:
            continue
        source = by_name.get(copy.name)
        if source is None:
            raise Refused(
                f"table {copy}: the original has no table {copy.name} to fill it from",
                hint="--from-topics fills it from the topics' first messages",
            )
        found.append(_Fill(source=source, copy=copy))
    return found


def check_empty(connection: Connection, tables: Sequence[TargetTable]) -> None:
    for one in tables:
        if run(connection, f"select exists (select from {one.quoted_name})").scalar_one():  # noqa: S608  # quoted
            raise Refused(f"table {one} has rows", hint=f"truncate {one.quoted_name}; the copy begins empty")


def columns_of(copy: TargetTable, source: TargetTable) -> list[Column]:
    """The copy's columns that are filled from the original. Raises Refused where its key needs others."""
    if lacking := [name for name in copy.key if name not in source.by_name]:
        raise Refused(
            f"table {copy}: {source} has no column {', '.join(lacking)} of its key",
            hint="--from-topics fills it from the topics' first messages",
        )
    return [one for one in copy.columns if not one.generated and one.name in source.by_name]


def _fill(connection: Connection, fills: Sequence[_Fill], progress: Callable[[str], None]) -> dict[str, int]:
    rows: dict[str, int] = {}
    for number, one in enumerate(fills, 1):
        progress(f"table {number} of {len(fills)}: {one.source}")
        rows[str(one.source)] = _fill_one(connection, one)
    return rows


def _fill_one(connection: Connection, fill: _Fill) -> int:
    source = load_table(connection, *fill.source.name)
    assert source is not None, "just found"
    columns = columns_of(fill.copy, source)
    names = ", ".join(quoted(one.name) for one in columns)
    values = ", ".join(
        quoted(one.name) if one.type == source.by_name[one.name].type else f"{quoted(one.name)}::{one.type}"
        for one in columns
    )
    done = run(
        connection,
        f"insert into {fill.copy.quoted_name} ({names}) overriding system value "  # noqa: S608  # quoted
        f"select {values} from {source.quoted_name}",
    )
    return done.rowcount


def begin_lane(
    connection: Connection, settings: Settings, position: Offsets, last: LastMessages, pins: tuple[str, dict[str, str]]
) -> None:
    """Write the second lane's first ledger row: its next start begins a checkpoint there."""
    ledger = Ledger(settings.target.db_schema, settings.lane)
    if ledger.last(connection) is not None:
        raise Refused(
            f"lane {settings.lane} exists: the ledger has its position", hint="give the configuration a new lane name"
        )
    if Quarantine(settings.target.db_schema, settings.lane).waiting(connection):
        raise Refused(
            f"lane {settings.lane} has entries in quarantine, of an earlier copy",
            hint="surelane quarantine discard, or give the configuration a new lane name",
        )
    generation = ledger.claim(connection, checkpoint=FROM_LEDGER, delivery=settings.mode.value, at_least=0).generation
    ledger.activate(connection, generation, FROM_LEDGER)
    genesis = EpochRecord.genesis(settings.lane, generation, position, last)
    ledger.record(connection, genesis)
    ledger.pin(connection, *pins)
