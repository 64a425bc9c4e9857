"""Computes the result of a query anew, beside the rows that it has.

    begin    forgets position and state, and makes an empty table like the query's, in Surelane's schema, in one
             transaction: killed before, the query goes on with what it has
    the run  writes there while that table exists; the epoch that reaches what Kafka had when the run began puts its
             rows in place of the old ones and drops it, in its own transaction

A reader sees the old rows until then. The table's existence is the record that a rebuild is in progress.
"""

from sqlalchemy import Connection, Engine

from app import failpoint
from app.apply.target_tables import TargetTable, load_table
from app.config.queries import QuerySettings
from app.config.settings import Settings, StartAt
from app.db.sql import literal, run
from app.db.sqlstate import translated
from app.errors import Refused, TargetMismatch, Unreachable
from app.kafka.broker import Broker
from app.kafka.transactional_topic import TransactionalTopic
from app.ledger.query_states import QueryStates
from app.ledger.store import FROM_LEDGER, Ledger
from app.model.offsets import Offsets
from app.protocol.start_table import settle
from app.protocol.target_participant import PreparedTarget
from app.query.archive_source import QueryArchive
from app.query.result_files import ResultFiles
from app.query.result_outbox import ResultOutbox
from app.query.result_table import ResultTable
from app.query.staging_table import own_name, own_table
from app.recover.in_doubt_evidence import source_of
from app.recover.stopped_lanes import lock_stopped


def rebuild_name(lane: str) -> str:
    """Name of the table that a rebuild of this query fills, without quotes."""
    return own_name("rebuild", lane)


def in_progress(connection: Connection, schema: str, lane: str) -> TargetTable | None:
    """The table that a rebuild fills; None: there is no rebuild."""
    return load_table(connection, schema, rebuild_name(lane))


def drop(connection: Connection, table: TargetTable) -> None:
    run(connection, f"drop table {table.quoted_name}")


def end(table: ResultTable, rebuilt: TargetTable, connection: Connection) -> int:
    """Put the rows of a rebuild in place of the old ones, in the caller's transaction. Returns their number."""
    rows = table.replace_rows(connection, rebuilt)
    drop(connection, rebuilt)
    return rows


def missing_messages(broker: Broker) -> int:
    """Offsets before the first that Kafka still has."""
    return sum(broker.start_offsets(StartAt.EARLIEST).values())


def archived(settings: Settings, broker: Broker) -> bool:
    """Whether the lane's archive has what Kafka no longer has, from the first message on."""
    first = Offsets.of(dict.fromkeys(broker.partitions(), 0))
    return QueryArchive.find(settings, broker, first) is not None


def begin(settings: Settings, engine: Engine, broker: Broker, *, from_earliest: bool) -> str:
    """Have the next run compute the result anew. Returns where its rows go. `settings`: the query's; `from_earliest`:
    from the first message that Kafka has, even if earlier ones are deleted. Raises Refused, LaneRunning,
    TargetMismatch, Unreachable."""
    query, lane = settings.query, settings.lane
    assert query is not None, "the settings are a query's"
    gone = missing_messages(broker)
    if gone and not from_earliest and not archived(settings, broker):
        raise Refused(
            f"lane {lane}: Kafka no longer has {gone:,} offsets from the beginning of its topics, and no archive has "
            "them: a result that is computed anew lacks their messages",
            hint="surelane state rebuild --from-earliest, if it shall begin at the first message that is left",
        )
    try:
        with translated(f"lane {lane}: beginning a rebuild"), engine.connect() as connection:
            return _begun(settings, query, engine, connection)
    except Unreachable as error:
        raise Unreachable(
            error.message,
            hint=f"surelane state rebuild {lane.rpartition('.')[2]}, once more: it is begun or not, never in part, and "
            "a second time does no harm",
        ) from error


def _begun(settings: Settings, query: QuerySettings, engine: Engine, connection: Connection) -> str:
    schema, lane = settings.target.db_schema, settings.lane
    ledger = Ledger(schema, lane)
    lock_stopped(connection, lane)
    _settle(settings, query, engine, connection, ledger)
    place = _checked_place(settings, query)
    failpoint.reach("rebuild-settled")
    with connection.begin():  # until it ends the query can go on with what it has
        ledger.claim(connection, checkpoint=FROM_LEDGER, delivery=settings.mode.value, at_least=0)
        ledger.forget(connection)
        QueryStates(schema).forget(connection, lane)
        if query.table is not None:
            _make_table(connection, schema, lane, query.table)
        elif query.kafka is not None and (outbox := ResultOutbox(schema, lane)).exists(connection):
            outbox.drop(connection)
        failpoint.reach("rebuild-before-commit")
    failpoint.reach("rebuild-after-commit")
    return place


def _settle(settings: Settings, query: QuerySettings, engine: Engine, connection: Connection, ledger: Ledger) -> None:
    """End what the last writer left prepared or pending, as a start does. Raises Refused for a checkpoint that cannot
    be read from here."""
    with connection.begin():
        generation = ledger.newest_generation(connection)
    target = PreparedTarget(connection, engine, ledger, generation)
    others = () if query.files is None else (ResultFiles(ledger.lane, query.files, ()),)
    if not any(one.handles() for one in (target, *others)):
        return
    entries = source_of(settings.checkpoint, None).entries
    if entries is None:
        raise Refused(
            f"lane {ledger.lane}: an epoch is not ended, and checkpoint {settings.checkpoint} is not on a disk of this "
            "machine",
            hint=f"surelane run --query {ledger.lane.rpartition('.')[2]}, whose start ends it, then this again",
        )
    identity = entries.identity()
    settle(connection, ledger, entries, identity and identity.checkpoint, target=target, others=others)


def _checked_place(settings: Settings, query: QuerySettings) -> str:
    """Where the rows go. Raises Refused for files and for a topic that have rows of the former result: these cannot be
    replaced at once."""
    if query.table is not None:
        return query.table
    if StartAt(query.start) is not StartAt.EARLIEST:
        raise Refused(
            f"lane {settings.lane}: it begins at the newest message (start: latest)",
            hint="write start: earliest, at least until its next run has begun",
        )
    if query.files is not None:
        files = ResultFiles(settings.lane, query.files, ())
        if files.epochs():
            raise Refused(f"{files} are of the former result", hint=f"mv {files.path} elsewhere, then this again")
        return str(files)
    assert query.kafka is not None, "validated"
    topic = TransactionalTopic(settings.source, query.kafka.topic, query.kafka.options, settings.lane)
    sent = topic.open()
    topic.close()
    if sent:
        raise Refused(
            f"topic {query.kafka.topic} has rows of the former result", hint="name another topic: kafka.topic"
        )
    return f"topic {query.kafka.topic}"


def _make_table(connection: Connection, schema: str, lane: str, of: str) -> None:
    """Make the empty table that the rebuild fills."""
    place, _, name = of.partition(".")
    table = load_table(connection, place, name)
    if table is None:
        raise TargetMismatch(f"lane {lane}: there is no table {of}", hint="create it")
    if (old := in_progress(connection, schema, lane)) is not None:
        drop(connection, old)
    made = own_table(schema, "rebuild", lane)
    run(connection, f"create table {made} (like {table.quoted_name} including all)")
    run(connection, f"comment on table {made} is {literal(f'rows of {of}, computed anew by {lane}')}")
