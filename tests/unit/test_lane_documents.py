"""The text of a verb that is about a lane as a whole is made from what its `--json` prints alone."""

import datetime
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import RenderableType
from sqlalchemy import make_url

from app.cli.doctor import findings_document, findings_text
from app.cli.doctor_checks.finding import fault, ok
from app.cli.gap_view import gaps_document, gaps_text
from app.cli.lane_status import LaneStatus, Report, StageStatus, WriterStatus
from app.cli.migrate import migrated_text
from app.cli.next_command import LaneOptions
from app.cli.pause import paused_text
from app.cli.recover_view import (
    course_text,
    plan_document,
    plan_text,
    recovered_document,
    recovered_text,
    resumed_document,
    resumed_text,
)
from app.cli.rendering import Document
from app.cli.replay_view import SHOWN, replayed_document, replayed_text
from app.cli.resume import resumed_text as pause_ended_text
from app.cli.snapshot_view import (
    listing_document,
    listing_text,
    made_document,
    made_text,
    restored_document,
    restored_text,
    verified_document,
    verified_text,
)
from app.cli.status import status_document, status_text
from app.config.settings import SnapshotDriver
from app.errors import Unreachable
from app.ledger.pauses import Pause
from app.ledger.table_pauses import TablePause
from app.model.counts import Counts
from app.model.in_flight import InFlight, InFlightView, SpanState, StageProcess
from app.model.offsets import Offsets, Position, Span, TopicPartition
from app.quarantine.quarantine import EntryState, Skip
from app.recover.from_ledger import Resumption
from app.recover.gap import Found, Gap
from app.recover.journal import Course, Step, StepRecord, StepState
from app.recover.recovering import Recovered
from app.recover.recovery_plan import PlanCheck, RecoveryPlan
from app.replay.replay import Replayed
from app.replay.skip_comparison import ReplaySkips
from app.snapshot.driver import Restored, RestorePlace
from app.snapshot.manifest import InDoubtTransaction, LanePosition, Manifest, Server, SnapshotContent, TargetView
from app.snapshot.snapshot_directory import Listing, StoredSnapshot
from app.snapshot.snapshots import Made
from tests.documents import check_text

AT = datetime.datetime(2024, 2, 3, 4, 5, 6, 789_000, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
URL = make_url("postgresql://u:secret@h/shop")


def at(offset: int) -> Offsets:
    return Offsets.of({TopicPartition("shop", 0): offset, TopicPartition("shop", 1): 7})


def in_flight(process: StageProcess | None, state: SpanState, *, stored: bool = False) -> InFlight:
    span = Span(start=Offsets(), end=Offsets()) if stored else Span(start=at(3), end=at(9))
    return InFlight(number=1, lane="orders", process=process, span=span, state=state, age_seconds=1.25, size=5 << 20)


ONE, OTHER = StageProcess(host="h1", slot=0, pid=11), StageProcess(host="h2", slot=1, pid=12)
SEEN = InFlightView(
    processes=(ONE, OTHER),
    spans=(
        in_flight(None, SpanState.WAITING),
        in_flight(ONE, SpanState.DECODE, stored=True),
        in_flight(OTHER, SpanState.STAGED),
    ),
)
PAUSE = Pause(by="me@here", at=AT, reason="why")
TABLE_PAUSE = TablePause(
    schema="public", table="o[r]", by="me@here", at=AT, reason=None, is_taken_up=True, resumed_by=None
)
LANE = LaneStatus(
    lane="orders",
    state="running",
    generation=3,
    epoch=1_234,
    position=at(5),
    lag_messages=12_345,
    lag_seconds=1_234.56,
    plans={"deletes-first": 1_200, "faithful": 3},
    pause=PAUSE,
    table_pauses=((TABLE_PAUSE, 1_234),),
    waits_for="standby s1: it is more than 30 s behind (limits.target_replica_lag)",
    in_doubt=("surelane:orders:1:3",),
    in_doubt_age_seconds=75.25,
    freshness_seconds=3.5,
    last_error="no table [shop.orders] \x1b[2J",
    writer=WriterStatus(host="h", pid=4, since=AT, backend=77, client=None),
    stage=StageStatus(seen=SEEN, limit=64 << 20),
)
NEW = LaneStatus(
    lane="orders.1",
    state="stopped",
    generation=None,
    epoch=None,
    position=Offsets(),
    lag_messages=None,
    lag_seconds=None,
    plans={},
    pause=None,
    table_pauses=(),
    waits_for=None,
    in_doubt=(),
    in_doubt_age_seconds=None,
    freshness_seconds=None,
    last_error=None,
    writer=None,
    stage=None,
)
GAP = Gap(
    lane="orders",
    position=at(3),
    archived=at(3),
    onward=at(9),
    deleted={TopicPartition("shop", 0): (3, 8)},
    anew={"old": ("id1", "id2")},
    cluster=("c1", "c2"),
    behind=11,
)
WHOLE = Gap(lane="orders.1", position=at(3), archived=at(3), onward=at(3))
ACCEPTED = SimpleNamespace(
    id=4,
    lane="orders",
    generation=2,
    from_position=at(3).nested(),
    to_position=at(9).nested(),
    missing=6,
    reason="why",
    os_user="me",
    host="here",
    at=AT,
)


def view(offset: int, *gids: str) -> TargetView:
    prepared = (
        InDoubtTransaction(gid=gid, database="shop", owner="o", prepared_at="2024-02-03 04:05:06+00", age_seconds=3.5)
        for gid in gids
    )
    lane = LanePosition(lane="orders", generation=2, epoch=5, applied=at(offset), read=at(9), checkpoint="c")
    return TargetView(lanes=(lane,), prepared=tuple(prepared))


MANIFEST = Manifest(
    name="one",
    driver=SnapshotDriver.BASEBACKUP,
    lane="orders",
    schema="surelane",
    made_at=AT,
    ended_at=AT + datetime.timedelta(seconds=12.34),
    content=SnapshotContent(
        server=Server(version="16.1", number=160_001, max_prepared_transactions=64, database="shop", roles=("a", "b")),
        first=view(5, "surelane:orders:1:3"),
        last=view(8, "theirs"),
        program="pg_basebackup 16",
    ),
    cluster_id="c",
    topics={"shop": "id1"},
    files=3,
    bytes=123_456_789,
)
STORED = StoredSnapshot(Path("/snapshots/one"), MANIFEST)
EXACT = StoredSnapshot(Path("/snapshots/one"), replace(MANIFEST, actual=view(9)))
PLAN = RecoveryPlan(
    manifest=MANIFEST,
    checks=(PlanCheck(what="retention", ok=False, said="Kafka has no longer: some"),),
    lost=("this",),
    steps=("stop", "go"),
    messages=12_345,
    seconds=75.04,
    headroom_seconds=3_601.2,
    running=("orders",),
)
LEADS_THERE = replace(PLAN, checks=(), seconds=None, headroom_seconds=math.inf)
DONE = StepRecord(state=StepState.DONE, at="2024-02-03T04:05:06+00:00", said="it is sound")
STEPS = {Step.CHECK: DONE, Step.RESTORE: StepRecord(state=StepState.FAILED, at=DONE.at, said="no space")}
BEGUN = Course(RestorePlace(to="/srv/x", port=5_433), {step: STEPS.get(step, StepRecord()) for step in Step})
FINISHED = Course(RestorePlace(to="/srv/x"), dict.fromkeys(Step, DONE))
RECOVERED = Recovered(snapshot="one", course=FINISHED, url=URL)
SKIPPED = tuple(
    Skip(position=Position("shop", 0, offset), table="public.flat", state=EntryState.PARKED)
    for offset in range(SHOWN + 4)
)
REPLAYED = Replayed(
    place=cast("Any", SimpleNamespace(shown="shadow", own="shadow_replay", is_elsewhere=False)),
    mark=cast("Any", SimpleNamespace(lane="orders", start=at(0), goal=at(1_000))),
    position=at(900),
    held=1_234,
    counts=Counts(consumed=12_345, applied=3_000),
    messages=1_000,
    seconds=2.0,
    skips=ReplaySkips(there=SKIPPED, here=SKIPPED[:1]),
    left_out=("trigger x",),
)


def gaps(*found: Gap, done: bool = False) -> Document:
    accepted = [] if done else [cast("Any", ACCEPTED)]
    return gaps_document(Found(gaps=found, accepted=accepted), [(GAP, 7)] if done else [])


@pytest.mark.parametrize(
    ("document", "text", "has"),
    [
        (
            status_document(Report(status=LANE, lanes=(), trouble=None), LaneOptions(None, None)),
            status_text,
            "the oldest for 1m15s|freshness|3s|surelane resume --table 'public.o[r]'|"
            "1 on h1, 1 on h2; 1 idle|5.0 of 64.0 MiB|no table [shop.orders] \\u001b[2J|since 2024-02-03 02:05:06 UTC|"
            "12,345 messages, oldest 1,234.6 s|kept messages|11 on h1, slot 0|shop[0] 3 to 9|"
            "paused by me@here, 2024-02-03 02:05:06 UTC: why",
        ),
        (
            status_document(
                Report(status=NEW, lanes=(LANE, NEW), trouble=Unreachable("no broker")),
                LaneOptions(Path("o.yaml"), "q"),
            ),
            status_text,
            "surelane run --config o.yaml --query q|never started|shop[0]@5, shop[1]@7|the lag is not known: no broker",
        ),
        (
            {"lane": "orders", "pause": PAUSE.as_json(), "running": []},
            paused_text,
            "lane orders is paused by me@here, 2024-02-03 02:05:06 UTC: why|it does not run now",
        ),
        (
            {"lane": "orders", "pause": replace(PAUSE, reason=None).as_json()},
            pause_ended_text,
            "lane orders goes on: it was paused by me@here, 2024-02-03 02:05:06 UTC\n",
        ),
        ({"lane": "orders", "pause": None}, pause_ended_text, "lane orders has no pause"),
        (
            findings_document("orders", [ok("a", "fine"), fault("b", "bad [x]", "do that")]),
            findings_text,
            "bad [x]|-> do that|faults: 1",
        ),
        (
            {"schema": "s", "before": None, "after": "2", "guard": {"before": "2", "after": "2"}},
            migrated_text,
            "schema s: nothing -> revision 2|the guard's database: at revision 2 already",
        ),
        (
            resumed_document([Resumption(lane="orders", position=at(1), messages=3)], done=False),
            resumed_text,
            "lane orders: from shop[0]@1, shop[1]@7, at most 3 messages to replay; nothing was changed",
        ),
        (
            gaps(GAP, WHOLE),
            gaps_text,
            "missing: shop[0] 3 to 8, at most 6 messages; pinned|lane orders.1: nothing is missing|"
            "accepted 2024-02-03 02:05:06 UTC by me@here: why|at most 11 messages to replay",
        ),
        (gaps(GAP, done=True), gaps_text, "lane orders: gap 7 accepted|goes on at shop[0]@9, shop[1]@7, at most 11"),
        (
            plan_document(PLAN),
            plan_text,
            "(basebackup): shop[0]@5, shop[1]@7 to shop[0]@8, shop[1]@7|about 1m15s; Kafka keeps them for 1h00m|"
            "FAULT  retention|retention-exceeded.md",
        ),
        (plan_document(LEADS_THERE), plan_text, "without limit of time|2. go|surelane recover run --snapshot one"),
        ({"snapshot": "one", **BEGUN.as_json()}, course_text, "it is sound (2024-02-03T04:05:06|failed no space|go on"),
        (recovered_document(RECOVERED), recovered_text, "url: postgresql://u:***@h/shop"),
        (recovered_document(replace(RECOVERED, url=None)), recovered_text, "one is recovered to /srv/x: nothing to do"),
        (
            made_document(Made(STORED, ["old"], "it is a standby")),
            made_text,
            "one: 117.7 MB in 12.3 s, /snapshots/one|deleted for it: old|no metric knows it: it is a standby|theirs in",
        ),
        (
            listing_document(Listing([STORED, EXACT], ["half"], [("bad", "manifest.json")]), Path("/x")),
            listing_text,
            "half: is being made|bad: cannot be used: manifest.json|shop[0]@5, shop[1]@7 to shop[0]@8, shop[1]@7  2",
        ),
        (listing_document(Listing([], [], []), Path("/x")), listing_text, "there is no snapshot in /x"),
        (
            verified_document(EXACT, ["data/a: is missing"]),
            verified_text,
            "2024-02-03 02:05:06 UTC to 2024-02-03 02:05:19 UTC|data/a: is missing|one: 1 faults|epoch 5",
        ),
        (
            restored_document(STORED, Restored(url=URL, seen=view(8, "theirs"))),
            restored_text,
            "one: restored at postgresql://u:***@h/shop|hold locks here, too (theirs)|epoch 5, read to shop[0]@9",
        ),
        (
            restored_document(STORED, Restored(url=URL, seen=None, trouble="no answer", before=True)),
            restored_text,
            "restored before, at|not be read: no answer|it is at shop[0]@5, shop[1]@7 to shop[0]@8, shop[1]@7; call",
        ),
        (
            replayed_document(REPLAYED, Path("a b.yaml")),
            replayed_text,
            "1,000 in 2.0 s, 500/s|up to shop[0]@900, shop[1]@7: 1,234 messages|applied here: shop[0]@1 public.flat|"
            "... and 3 more|not made: trigger x|next: surelane verify --config 'a b.yaml' --against-schema shadow",
        ),
    ],
)
def test_the_text_is_made_from_the_json(
    document: Document,
    text: Callable[[Document], Iterable[RenderableType]],
    has: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "secret" not in check_text(document, text, has, capsys)
