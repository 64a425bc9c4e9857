"""The types of the documents below `/api`, for the OpenAPI document and for the tests, which hold each answer to them.

Meanings of top-level keys are in `app.console.screens`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

#: ISO 8601, in UTC
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
#: topic -> partition -> next offset
PositionDoc = dict[str, dict[str, int]]
#: step of an epoch, or part of its timeline -> milliseconds
MillisecondsDoc = dict[str, float]


class PauseDoc(TypedDict):
    by: str
    at: Moment
    reason: str | None


class TablePauseDoc(PauseDoc):
    table: str
    taken_up: bool
    resumed_by: str | None
    parked: int


class WriterDoc(TypedDict):
    host: str | None
    pid: int | None
    since: Moment | None
    backend: int | None
    client: str | None


class StageProcessDoc(TypedDict):
    host: str
    slot: int
    pid: int


class StageSpanDoc(TypedDict):
    lane: str
    process: StageProcessDoc | None
    start: PositionDoc
    end: PositionDoc
    state: str
    age_seconds: float
    bytes: int


class StageDoc(TypedDict):
    processes: list[StageProcessDoc]
    idle: int
    spans: list[StageSpanDoc]
    ahead_bytes: int
    ahead_limit_bytes: int


class NextCommandDoc(TypedDict):
    command: str
    why: str
    gid: str | None


class LaneDoc(TypedDict):
    lane: str
    state: str
    generation: int | None
    epoch: int | None
    position: PositionDoc
    lag_messages: int | None
    lag_seconds: float | None
    plans: dict[str, int]
    pause: PauseDoc | None
    table_pauses: list[TablePauseDoc]
    waits_for: str | None
    in_doubt: list[str]
    in_doubt_age_seconds: float | None
    freshness_seconds: float | None
    last_error: str | None
    writer: WriterDoc | None
    stage: StageDoc | None


class FiguresDoc(TypedDict):
    generation: int
    epoch: int
    applied_at: Moment
    consumed: int
    freshness_seconds: float | None


class LagSampleDoc(TypedDict):
    at: Moment
    messages: int
    seconds: float | None


class NowDoc(LaneDoc):
    hint: str | None
    options: list[str]
    next: list[NextCommandDoc]
    lanes: NotRequired[list[LaneDoc]]
    lag_trouble: NotRequired[str]
    applied_at: Moment | None
    recent: list[FiguresDoc]
    recent_lag: list[LagSampleDoc]


class MarkDoc(TypedDict):
    #: fallback, replay or settled
    mark: str
    said: str


class EpochRowDoc(FiguresDoc):
    key: str
    plan: str
    start: PositionDoc
    end: PositionDoc
    applied: int
    compacted: int
    filtered: int
    duplicate: int
    quarantined: int
    source_from: Moment | None
    source_to: Moment | None
    steps: MillisecondsDoc | None
    timeline: MillisecondsDoc | None
    marks: list[MarkDoc]


class GenerationDoc(TypedDict):
    generation: int
    checkpoint: str
    delivery: str
    host: str
    pid: int
    started_at: Moment


class EndDoc(TypedDict):
    #: stopped, failed, killed or fenced, or the state that the lane reported
    how: str
    said: str | None


class ShownGenerationDoc(TypedDict):
    generation: int
    #: null, without the keys below it: the ledger has epochs of it and no row of its own
    started_at: Moment | None
    checkpoint: NotRequired[str]
    delivery: NotRequired[str]
    host: NotRequired[str]
    pid: NotRequired[int]
    #: null: it runs, or its end is not known
    ended: EndDoc | None
    epochs_here: bool
    begins_here: bool


class LogEventDoc(TypedDict):
    event: str
    words: str
    level: str
    at: str
    details: str


class EpochsDoc(TypedDict):
    lane: str
    lanes: list[str]
    total: int
    epochs: list[EpochRowDoc]
    generations: list[ShownGenerationDoc]
    plans: list[str]
    older: str | None
    events: list[LogEventDoc]
    steps_from: list[str]


class CheckpointTimesDoc(TypedDict):
    planned_at: Moment | None
    decided_at: Moment | None
    trouble: str | None


class EpochDoc(EpochRowDoc):
    lane: str
    steps_from: list[str]
    began_at: Moment | None
    visible_at: Moment | None
    ahead_ms: float | None
    #: topic -> partition -> identity
    last_message: dict[str, dict[str, dict[str, Any]]] | None
    read: PositionDoc | None
    generation_row: GenerationDoc | None
    checkpoint: CheckpointTimesDoc
    older: str | None
    newer: str | None


class SpanDoc(TypedDict):
    start: PositionDoc
    end: PositionDoc


class EvidenceDoc(TypedDict):
    holder: int | None
    location: str
    copy: bool
    checkpoint: str | None
    newest_generation: int | None
    trouble: str | None
    of_generation: str | None
    current: str | None
    planned: bool | None
    complete: bool | None
    ledger_row: bool
    span: SpanDoc | None


class LockDoc(TypedDict):
    locktype: str
    mode: str
    place: str


class WaiterDoc(TypedDict):
    pid: int
    user: str | None
    application: str | None
    mode: str
    place: str
    seconds: float
    query: str
    behind: bool


class PreparedDoc(TypedDict):
    gid: str
    lane: str | None
    generation: int | None
    epoch: int | None
    owner: str
    prepared_at: Moment
    age_seconds: float
    verdict: str
    why: str
    next: str
    answer: str | None
    evidence: EvidenceDoc | None
    tables: list[str]
    locks: list[LockDoc]
    blocks: list[WaiterDoc]


class SlotsDoc(TypedDict):
    used: int
    limit: int


class BegunAnswerDoc(TypedDict):
    id: int
    lane: str
    gid: str
    answer: str
    forced: bool
    reason: str | None
    os_user: str
    host: str
    at: Moment


class GivenAnswerDoc(BegunAnswerDoc):
    generation: int | None
    epoch: int | None
    verdict: str
    evidence: dict[str, Any] | None
    db_user: str
    state: str
    outcome: str | None
    ended_at: Moment | None


class InDoubtDoc(TypedDict):
    lane: str
    transactions: list[PreparedDoc]
    slots: SlotsDoc
    unfinished: list[BegunAnswerDoc]
    answers: list[GivenAnswerDoc]
    answers_total: int


class TransactionDoc(TypedDict):
    gid: str
    prepared: PreparedDoc | None
    fate: str | None
    answers: list[GivenAnswerDoc]


class BytesDoc(TypedDict):
    size: int
    text: str | None
    base64: str | None


class ReleaseDoc(TypedDict):
    requested_at: Moment
    requested_by: str | None
    forced: bool
    reason: str | None
    refused: str | None


class SkippedDoc(TypedDict):
    id: int
    lane: str
    state: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    table: str | None
    key: BytesDoc | None
    stage: str | None
    verdict: str | None
    error_class: str | None
    error: str | None
    sqlstate: str | None
    attempts: int
    generation: int
    epoch: int
    quarantined_at: Moment
    changed_at: Moment
    dead_lettered_at: Moment | None
    release: ReleaseDoc | None


class QuarantineDoc(TypedDict):
    total: int
    entries: list[SkippedDoc]
    older: int | None
    open: int


class OutcomeDoc(TypedDict):
    states: dict[str, int]
    waiting: int
    refused: int
    total: int
    entries: list[SkippedDoc]
    older: int | None


class HistoryDoc(TypedDict):
    at: Moment
    what: str
    from_state: str | None
    to_state: str
    db_user: str
    who: str | None
    reason: str | None
    forced: bool | None


class EntryDoc(SkippedDoc):
    value: BytesDoc | None
    #: name and value
    headers: list[list[str | BytesDoc | None]]
    history: list[HistoryDoc]
    behind: list[SkippedDoc]
    behind_total: int


class InProgressDoc(SpanDoc):
    generation: int
    epoch: int
    stage: str
    finished: bool
    host: str
    pid: int
    messages_at_most: int
    begun_at: Moment


class SuspectDoc(SpanDoc):
    stage: str
    messages_at_most: int
    first_messages: int | None
    cuts_left: int
    attempts: int
    max_attempts: int
    losses: int
    max_losses: int
    deaths: int
    unexplained: int
    alone: int
    controlled: bool
    control_failures: int
    cause: str
    error_class: str
    sqlstate: str | None
    first_at: Moment
    last_at: Moment


class GuardedLaneDoc(TypedDict):
    lane: str
    in_progress: InProgressDoc | None
    suspects: list[SuspectDoc]


class GuardDoc(TypedDict):
    lanes: list[GuardedLaneDoc]


class LanePositionDoc(TypedDict):
    lane: str
    generation: int | None
    epoch: int | None
    checkpoint: str | None
    applied: PositionDoc
    read: PositionDoc


class SnapshotPreparedDoc(TypedDict):
    gid: str
    database: str
    owner: str
    prepared_at: str
    age_seconds: float


class TargetViewDoc(TypedDict):
    lanes: list[LanePositionDoc]
    prepared: list[SnapshotPreparedDoc]


class ServerDoc(TypedDict):
    version: str
    number: int
    max_prepared_transactions: int
    database: str
    roles: list[str]


class SnapshotDoc(TypedDict):
    format: int
    name: str
    driver: str
    lane: str
    schema: str
    made_at: Moment
    ended_at: Moment
    cluster_id: str | None
    topics: dict[str, str]
    rate: float | None
    server: ServerDoc
    program: str
    exact: bool
    first: TargetViewDoc
    last: TargetViewDoc | None
    files: int
    bytes: int
    sums: str
    #: of its driver
    more: dict[str, Any]
    position: PositionDoc
    last_position: PositionDoc | None
    actual: TargetViewDoc | None
    prepared: list[SnapshotPreparedDoc]
    folder: str


class BrokenSnapshotDoc(TypedDict):
    name: str
    why: str


class ReplayableDoc(TypedDict):
    ok: bool | None
    messages_at_most: int | None
    until: Moment | None
    limit: str | None
    trouble: str | None


class SnapshotsDoc(TypedDict):
    snapshots: list[SnapshotDoc]
    unfinished: list[str]
    broken: list[BrokenSnapshotDoc]
    directory: str
    replayable: dict[str, ReplayableDoc]


class ParkedKeyDoc(TypedDict):
    table: str | None
    key: str | None
    entries: int


class SavepointLaneDoc(LanePositionDoc):
    last_messages: dict[str, Any]
    quarantine: dict[str, int]
    parked: list[ParkedKeyDoc]
    suspects: int


class VersionsDoc(TypedDict):
    surelane: str
    spark: str
    postgres: str
    ledger: str


class SavepointSnapshotDoc(TypedDict):
    name: str
    sums: str


class StateStoreDoc(TypedDict):
    operator: int
    name: str
    store: str
    #: column and type
    key: list[list[str]]
    value: list[list[str]]


class SavepointDoc(TypedDict):
    format: int
    name: str
    lane: str
    made_at: Moment
    position: PositionDoc
    lanes: list[SavepointLaneDoc]
    cluster_id: str | None
    topics: dict[str, str]
    #: without secrets
    configuration: dict[str, Any]
    items: dict[str, Any]
    versions: VersionsDoc
    snapshot: SavepointSnapshotDoc | None
    periodic: bool
    state: dict[str, list[StateStoreDoc]]
    fingerprint: str


class SavepointsDoc(TypedDict):
    directory: str
    savepoints: list[SavepointDoc]
    #: name -> why
    broken: dict[str, str]
    trouble: str | None
    replayable: dict[str, ReplayableDoc]


class PlaceDoc(TypedDict):
    to: str
    port: int | None
    max_prepared_transactions: int | None
    owners: bool


class RecoveryOrderDoc(TypedDict):
    at: Moment
    who: str
    host: str
    reason: str | None
    place: str | None
    port: int | None
    foreign: bool
    anew: bool


class RecoveryStepDoc(TypedDict):
    step: str
    state: str
    at: Moment | None
    said: str
    #: values that later steps need
    facts: dict[str, Any]


class ReplayDoc(TypedDict):
    done: int
    left: int
    at: Moment


class CourseDoc(TypedDict):
    place: PlaceDoc | None
    finished: bool
    at_work: bool
    orders: list[RecoveryOrderDoc]
    steps: list[RecoveryStepDoc]
    replay: ReplayDoc | None


class RecoveryDoc(TypedDict):
    snapshots: SnapshotsDoc
    recoveries: dict[str, CourseDoc]
    savepoints: SavepointsDoc


class SnapshotCourseDoc(CourseDoc):
    snapshot: str
    output: str | None


class GateDoc(TypedDict):
    what: str
    ok: bool
    said: str


class RecoveryPlanDoc(TypedDict):
    snapshot: str
    driver: str
    ok: bool
    exact: bool
    position: PositionDoc
    last_position: PositionDoc | None
    checks: list[GateDoc]
    running: list[str] | None
    steps: list[str]
    command: str
    lost: list[str]
    messages_at_most: int
    seconds: float | None
    headroom_seconds: float | None
    headroom_known: bool


class PlanDoc(TypedDict):
    snapshot: str
    driver: str
    exact: bool
    position: PositionDoc
    last_position: PositionDoc | None
    plan: RecoveryPlanDoc | None
    trouble: str | None
    recovery: SnapshotCourseDoc


class RunDoc(TypedDict):
    id: int
    lane: str
    at: Moment
    against: str
    tables: int
    rows: int
    differing: int
    equal: bool


class RunsDoc(TypedDict):
    lane: str
    runs: list[RunDoc]


class BothRowsDoc(TypedDict):
    target: int
    other: int


class BothValuesDoc(TypedDict):
    target: str | None
    other: str | None


class DifferenceDoc(TypedDict):
    key: dict[str, str | None]
    kind: str
    columns: dict[str, BothValuesDoc]


class ComparedTableDoc(TypedDict):
    table: str
    other: str
    key: list[str]
    not_compared: list[str]
    rows: BothRowsDoc
    equal: bool
    missing: int
    surplus: int
    differing: int
    differences: list[DifferenceDoc]
    compared_at: NotRequired[Moment]


class LeftOutTableDoc(TypedDict):
    table: str
    why: str


class BothPositionsDoc(TypedDict):
    target: PositionDoc
    other: PositionDoc
    apart: int


class ComparedDoc(TypedDict):
    lane: str
    against: str
    equal: bool
    rows: int
    differing: int
    positions: NotRequired[BothPositionsDoc]
    tables: list[ComparedTableDoc]
    skipped: list[LeftOutTableDoc]


class ComparisonDoc(RunDoc):
    document: ComparedDoc


class SizedStoreDoc(StateStoreDoc):
    windows: bool


class QuerySizeDoc(TypedDict):
    query: str
    lane: str
    runs: bool
    state: str | None
    last_error: str | None
    epoch: int | None
    position: PositionDoc
    computes: str | None
    into: str | None
    stores: list[SizedStoreDoc]
    rows: int | None
    memory_bytes: int | None
    disk_bytes: int | None
    watermark: Moment | None
    trouble: str | None


class QueriesDoc(TypedDict):
    lane: str
    queries: list[QuerySizeDoc]


class WindowDoc(TypedDict):
    operator: int
    name: str
    store: str
    start: Moment
    end: Moment
    keys: int


class WindowsDoc(TypedDict):
    query: str
    windows: list[WindowDoc]
    more: bool
    read: bool


class FindingDoc(TypedDict):
    check: str
    level: str
    message: str
    hint: str | None


class DoctorDoc(TypedDict):
    lane: str
    faults: int
    findings: list[FindingDoc]


class ConfigValueDoc(TypedDict):
    key: str
    value: str
    default: bool


class ConfigurationDoc(TypedDict):
    lane: str
    file: str
    values: list[ConfigValueDoc]


class LaneSummaryDoc(TypedDict):
    lane: str
    state: str
    generation: NotRequired[int | None]
    epoch: NotRequired[int | None]
    position: NotRequired[PositionDoc]
    pause: NotRequired[PauseDoc | None]
    last_error: NotRequired[str | None]
    next: NotRequired[list[NextCommandDoc]]
    in_doubt: NotRequired[list[str]]
    applied_at: NotRequired[Moment | None]
    freshness_seconds: NotRequired[float | None]
    #: null: there is none, and every key is there
    trouble: str | None


class BrokenFileDoc(TypedDict):
    file: str
    fault: str


class OverviewDoc(TypedDict):
    lanes: list[LaneSummaryDoc]
    broken: list[BrokenFileDoc]


#: of each screen
DOCUMENTS: Mapping[str, Any] = {
    "now": NowDoc,
    "epochs": EpochsDoc,
    "epoch": EpochDoc,
    "in-doubt": InDoubtDoc,
    "transaction": TransactionDoc,
    "quarantine": QuarantineDoc,
    "outcome": OutcomeDoc,
    "entry": EntryDoc,
    "guard": GuardDoc,
    "recovery": RecoveryDoc,
    "plan": PlanDoc,
    "verify": RunsDoc,
    "comparison": ComparisonDoc,
    "queries": QueriesDoc,
    "windows": WindowsDoc,
    "doctor": DoctorDoc,
    "configuration": ConfigurationDoc,
}
