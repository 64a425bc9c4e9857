"""Queries of a target: the lanes' positions, prepared transactions, and facts of the server."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, select, text
from sqlalchemy.engine import URL

from app.config.settings import Settings
from app.db.engine import make_engine
from app.db.sql import quoted
from app.db.sqlstate import translated
from app.errors import SurelaneError
from app.ledger.ledger_tables import LedgerTables, lanes_of
from app.ledger.store import Ledger
from app.snapshot.driver import Restored
from app.snapshot.manifest import InDoubtTransaction, LanePosition, Server, TargetView

#: application_name of the connections
NAME = "surelane snapshot"
_PREPARED = text("""
    select gid, database, owner, prepared, extract(epoch from clock_timestamp() - prepared)::float8 age
    from pg_prepared_xacts order by prepared, gid
""")
_SERVER = text("""
    select current_setting('server_version') version, current_setting('server_version_num')::int number,
        current_setting('max_prepared_transactions')::int max_prepared_transactions, current_database() database
""")
#: rate over epochs with at least half the messages of the fullest: the lane's speed under load
_RATE = """
    with lately as (
        select consumed, extract(epoch from applied_at - lag(applied_at) over (partition by lane order by applied_at))
            seconds
        from {ledger} where lane = :lane or starts_with(lane, :prefix) order by applied_at desc limit :epochs
    )
    select sum(consumed)::float8 / nullif(sum(seconds), 0)::float8 from lately
    where seconds is not null and consumed > 0 and consumed * 2 >= (select max(consumed) from lately)
"""
#: epochs that the rate is computed from
RATE_EPOCHS = 1_000
_ROLES = text("""
    select distinct r.rolname from pg_shdepend s join pg_roles r on r.oid = s.refobjid
    where s.refclassid = 'pg_authid'::regclass
      and s.dbid = (select oid from pg_database where datname = current_database()) order by 1
""")


@contextmanager
def looking(settings: Settings) -> Iterator[Connection]:
    """A REPEATABLE READ connection to the target, with the lane's role."""
    target = settings.target
    engine = make_engine(target.url, target.owner_role, NAME).execution_options(isolation_level="REPEATABLE READ")
    with translated("snapshot: reading the target"), engine.connect() as connection:
        yield connection


def look(url: URL, settings: Settings, *, before: bool) -> Restored:
    """Read a restored target at `url`; `trouble` has the error if that fails."""
    role = settings.target.owner_role
    try:
        with translated("reading what was restored"), make_engine(url, role, NAME).connect() as connection:
            return Restored(url=url, seen=seen(connection, settings), before=before)
    except SurelaneError as error:
        return Restored(url=url, seen=None, trouble=error.message, before=before)


def server(connection: Connection) -> Server:
    """Facts of the server and the database."""
    row = connection.execute(_SERVER).mappings().one()
    return Server(**row, roles=tuple(connection.execute(_ROLES).scalars()))


def seen(connection: Connection, settings: Settings) -> TargetView:
    """The lanes of the configuration, and all prepared transactions on the server."""
    several = settings.source.is_by_partition
    lane = LedgerTables.in_schema(settings.target.db_schema).lane.c.lane
    names = connection.execute(select(lane).where(lanes_of(lane, settings.lane, several=several)).order_by(lane))
    standings = [_standing(connection, Ledger(settings.target.db_schema, name)) for name in names.scalars().all()]
    prepared = [
        InDoubtTransaction(
            gid=row.gid,
            database=row.database,
            owner=row.owner,
            prepared_at=row.prepared.isoformat(),
            age_seconds=round(max(0.0, row.age), 3),
        )
        for row in connection.execute(_PREPARED)
    ]
    return TargetView(lanes=tuple(one for one in standings if one), prepared=tuple(prepared))


def rate(connection: Connection, settings: Settings) -> float | None:
    """Messages per second that one lane recently applied under load; None if the ledger has too few epochs."""
    ledger = f"{quoted(settings.target.db_schema)}.ledger"
    several = settings.source.is_by_partition
    prefix = f"{settings.lane}." if several else f"{settings.lane} "  # no lane's name has a space
    values = {"lane": settings.lane, "prefix": prefix, "epochs": RATE_EPOCHS}
    return connection.execute(text(_RATE.format(ledger=ledger.replace(":", r"\:"))), values).scalar_one()


def pinned(connection: Connection, settings: Settings) -> tuple[str | None, dict[str, str]]:
    """The cluster id, and topic -> topic id, that the lanes are pinned to."""
    tables = LedgerTables.in_schema(settings.target.db_schema)
    several = settings.source.is_by_partition
    lanes = lanes_of(tables.lane.c.lane, settings.lane, several=several)
    cluster = connection.execute(select(tables.lane.c.cluster_id).where(lanes)).scalars().first()
    mine = lanes_of(tables.topic.c.lane, settings.lane, several=several)
    rows = connection.execute(select(tables.topic.c.topic, tables.topic.c.topic_id).where(mine))
    return cluster, {row.topic: row.topic_id for row in rows}


def _standing(connection: Connection, ledger: Ledger) -> LanePosition | None:
    last = ledger.last(connection)
    if last is None:
        return None
    return LanePosition(
        lane=ledger.lane,
        generation=last.generation,
        epoch=last.epoch,
        applied=last.span.end,
        read=last.read,
        checkpoint=ledger.newest_checkpoint(connection),
    )
