"""The status of a lane, running or not, read from the target's ledger and locks and from Kafka."""

import datetime
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlalchemy import Connection, Engine

from app.config.routes import Routes
from app.config.settings import Order, Settings
from app.db.locks import client, lock_holder
from app.db.prepared import prepared
from app.db.sqlstate import translated
from app.errors import SurelaneError
from app.kafka.broker import Broker
from app.kafka.lag import measure
from app.ledger.epoch_history import EpochHistory
from app.ledger.held_lanes import lanes_there
from app.ledger.in_flight_rows import InFlightRows
from app.ledger.pauses import PAUSED, Pause, Pauses
from app.ledger.store import Ledger
from app.ledger.table_pauses import TablePause, TablePauses
from app.model.epoch import GENESIS
from app.model.gid import Gid
from app.model.in_flight import InFlightView
from app.model.offsets import Offsets
from app.quarantine.paused_tables import parked_messages
from app.quarantine.quarantine import Quarantine

_Number = TypeVar("_Number", int, float)
#: states by urgency: several lanes together have the first that one of them has
STATES_BY_URGENCY = ("failed", "stopped", "starting", "paused", "waiting", "running")
#: states of a process that holds the lane's lock
ALIVE = ("starting", "running", "waiting", PAUSED)
#: newest epochs whose plans are counted
PLANS_OF = 1000
DIED = "the writer ended without a word (killed?): the next start settles what it left"


@dataclass(frozen=True, kw_only=True)
class WriterStatus:
    """The process of the lane's generation, and the session that holds the lane's lock. None: not known, or none."""

    host: str | None
    pid: int | None
    since: datetime.datetime | None
    #: pid of the session in the server, and the address that it connects from
    backend: int | None
    client: str | None


@dataclass(frozen=True, kw_only=True)
class StageStatus:
    """What the stage processes work on, as the lane's monitor wrote it within the last second or two."""

    seen: InFlightView
    #: bytes that may be staged ahead, by this configuration
    limit: int


@dataclass(frozen=True, kw_only=True)
class LaneStatus:
    """One lane, or all lanes of one configuration together. None: not known, or not there yet."""

    lane: str
    state: str
    generation: int | None
    epoch: int | None
    position: Offsets
    lag_messages: int | None
    lag_seconds: float | None
    #: plan -> number of epochs that took it, of the last PLANS_OF
    plans: dict[str, int]
    #: None: not paused; of all lanes of the configuration
    pause: Pause | None
    #: of single tables, each with its number of parked messages
    table_pauses: tuple[tuple[TablePause, int], ...]
    #: in state waiting: what for
    waits_for: str | None
    #: gids of this lane's prepared transactions
    in_doubt: tuple[str, ...]
    #: of the oldest one
    in_doubt_age_seconds: float | None
    #: of the newest epoch with a change: from the source's commit to the target
    freshness_seconds: float | None
    last_error: str | None
    #: None also for several lanes together
    writer: WriterStatus | None
    #: None: the lane does not run, or the driver stages by itself
    stage: StageStatus | None


@dataclass(frozen=True, kw_only=True)
class Report:
    """The status of a configuration's lanes."""

    status: LaneStatus
    #: each lane separately where `order: partition` makes several, else empty
    lanes: tuple[LaneStatus, ...]
    #: why the lag is not known
    trouble: SurelaneError | None

    def lagging(self, messages: int | None, seconds: float | None) -> "Report":
        return replace(self, status=replace(self.status, lag_messages=messages, lag_seconds=seconds), trouble=None)

    def without_lag(self, trouble: SurelaneError) -> "Report":
        return replace(self, trouble=trouble)


def read_report(settings: Settings, engine: Engine, broker: Broker | None) -> Report:
    """Read the status of the lane of `settings`; only the target has to be reachable. `broker`: None reads no lag."""
    with translated("reading the ledger"), engine.connect() as connection:
        lanes = [_read(connection, settings, name) for name in _names(connection, settings)]
    status = lanes[0] if settings.source.order is Order.TOTAL else _together(settings.lane, lanes)
    several = () if settings.source.order is Order.TOTAL else tuple(lanes)
    report = Report(status=status, lanes=several, trouble=None)
    return report if broker is None else with_lag(report, settings, broker)


def with_lag(report: Report, settings: Settings, broker: Broker) -> Report:
    """Measure the lag of the report's position."""
    position = report.status.position
    try:
        lag = measure(broker, position or broker.start_offsets(settings.source.start))
        return report.lagging(lag.messages, lag.seconds)
    except SurelaneError as trouble:
        return report.without_lag(trouble)


def _names(connection: Connection, settings: Settings) -> list[str]:
    if settings.source.order is Order.TOTAL:
        return [settings.lane]
    return lanes_there(connection, settings.target.db_schema, settings.lane, several=True)


def _read(connection: Connection, settings: Settings, lane: str) -> LaneStatus:
    ledger = Ledger(settings.target.db_schema, lane)
    row, last, reported = ledger.lane_row(connection), ledger.last(connection), ledger.state(connection)
    in_doubt = [one for one in prepared(connection) if (gid := Gid.parse(one.gid)) and gid.belongs_to(lane)]
    state, error = (reported.state, reported.last_error) if reported else ("stopped", None)
    holder, alive = lock_holder(connection, lane), state in ALIVE
    if alive and holder is None:
        state, error = "failed", error or DIED
    elif holder is not None and not alive:
        state = "starting"  # the ledger still has the state of the run before
    return LaneStatus(
        lane=lane,
        state=state,
        generation=row.generation if row else None,
        epoch=last.epoch if last and last.epoch != GENESIS else None,
        position=last.span.end if last else Offsets(),
        lag_messages=None,
        lag_seconds=None,
        plans=ledger.plans(connection, PLANS_OF),
        pause=Pauses(ledger.schema, settings.lane).find(connection),
        table_pauses=_table_pauses(connection, settings, lane),
        waits_for=reported.waits_for if reported and state == "waiting" else None,
        in_doubt=tuple(one.gid for one in in_doubt),
        in_doubt_age_seconds=round(max(one.age_seconds for one in in_doubt), 3) if in_doubt else None,
        freshness_seconds=EpochHistory(ledger.schema, lane).freshness(connection),
        last_error=error,
        writer=_writer(connection, ledger, row.generation if row else None, holder),
        stage=_stage(connection, settings, ledger) if holder is not None else None,
    )


def _table_pauses(connection: Connection, settings: Settings, lane: str) -> tuple[tuple[TablePause, int], ...]:
    schema, routes = settings.target.db_schema, Routes(settings.target.tables)
    if not (pauses := TablePauses(schema, lane).find(connection)):
        return ()
    parked = parked_messages(connection, Quarantine(schema, lane), routes)
    return tuple((pause, parked[pause.schema, pause.table]) for pause in pauses)


def _stage(connection: Connection, settings: Settings, ledger: Ledger) -> StageStatus:
    newest = ledger.newest_generation(connection)
    seen = InFlightRows(ledger.schema, ledger.lane).read(connection, newest)
    return StageStatus(seen=seen, limit=settings.stage.ahead_bytes)


def _writer(connection: Connection, ledger: Ledger, generation: int | None, holder: int | None) -> WriterStatus | None:
    by = ledger.claimant(connection, generation) if generation is not None else None
    if by is None and holder is None:
        return None
    return WriterStatus(
        host=by.host if by else None,
        pid=by.pid if by else None,
        since=by.since if by else None,
        backend=holder,
        client=client(connection, holder) if holder is not None else None,
    )


def _together(lane: str, lanes: list[LaneStatus]) -> LaneStatus:
    """Merge several lanes into one: the most urgent state, the highest numbers."""
    states = {one.state for one in lanes}
    return LaneStatus(
        lane=lane,
        state=next((state for state in STATES_BY_URGENCY if state in states), "stopped"),
        generation=_highest(one.generation for one in lanes),
        epoch=_highest(one.epoch for one in lanes),
        position=Offsets.of({tp: offset for one in lanes for tp, offset in one.position.items()}),
        lag_messages=None,
        lag_seconds=None,
        plans=dict(sum((Counter(one.plans) for one in lanes), Counter())),
        pause=next((one.pause for one in lanes if one.pause), None),
        table_pauses=tuple(pause for one in lanes for pause in one.table_pauses),
        waits_for=next((one.waits_for for one in lanes if one.waits_for), None),
        in_doubt=tuple(gid for one in lanes for gid in one.in_doubt),
        in_doubt_age_seconds=_highest(one.in_doubt_age_seconds for one in lanes),
        freshness_seconds=_highest(one.freshness_seconds for one in lanes),
        last_error=next((f"{one.lane}: {one.last_error}" for one in lanes if one.last_error), None),
        writer=None,
        stage=_stages_together([one.stage for one in lanes if one.stage is not None]),
    )


def _stages_together(stages: list[StageStatus]) -> StageStatus | None:
    """Merge the lanes' stages; idle processes are listed with every lane."""
    if not stages:
        return None
    processes = sorted({process for one in stages for process in one.seen.processes})
    spans = tuple(span for one in stages for span in one.seen.spans)
    return StageStatus(seen=InFlightView(processes=tuple(processes), spans=spans), limit=stages[0].limit)


def _highest(numbers: Iterable[_Number | None]) -> _Number | None:
    return max((number for number in numbers if number is not None), default=None)
