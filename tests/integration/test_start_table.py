"""The start table of `app.recover`: each row made by hand, with real Spark, Kafka and Postgres, and settled as it says.

W offsets/N exists, C commits/N exists, P the epoch's gid is prepared, L its ledger row is visible. The lane applies a
few epochs itself; the next one, N, is then brought into the wanted state with files and SQL. `BY_HAND` marks the ledger
row of a transaction made here, so that a test sees whether it was kept or whether the lane applied the epoch itself.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import Connection, text

from app.config.settings import CommitMode
from app.errors import Diverged, ExitStatus
from app.ledger.store import Ledger
from app.model.counts import Counts
from app.model.epoch import EpochRecord
from app.model.gid import Gid
from app.model.offsets import Offsets, Span, TopicPartition
from app.poison.attempts import Attempts
from app.poison.guard import Guard, Limits
from app.protocol.fencing import open_writers
from app.quarantine.quarantine import Quarantine
from app.spark.checkpoint import Checkpoint
from app.spark.entries import IDENTITY_FILE, NEW_IDENTITY_FILE, CheckpointIdentity
from app.spark.session import ComingSession
from app.worker.lane_writer import LaneWriter
from tests.commands import Ended
from tests.fix_lane import MODES, ROOT, LaneUnderTest, MakeLane, MakeProcess
from tests.fix_target import SCHEMA, Target
from tests.fix_topic import Topic
from tests.messages import Debezium, Message
from tests.oracle import questions
from tests.runbook import commands
from tests.workload import COUNTER

#: messages in each epoch that the lane cuts
EPOCH = 10
#: epochs that it applies before anything is made by hand
EARLIER = 2
#: messages in the epoch made by hand; another number than the lane would choose, so that a replay is seen to keep it
PLANNED = 7
#: plan of ledger rows that are made here
BY_HAND = "by hand"
OTHER_TABLE = "not_the_lanes"
COMMAND_SECONDS = 240.0

_DEBEZIUM = Debezium()
_UPSERT = text("insert into public.counter values (:id, :hits) on conflict (id) do update set hits = excluded.hits")


def in_modes(*modes: CommitMode) -> pytest.MarkDecorator:
    """Run a test in these modes; without any in all of them."""
    return pytest.mark.parametrize("mode", modes or MODES, ids=lambda mode: mode.value)


@dataclass
class Scene:
    """A lane that has applied EARLIER epochs, with the messages of the next ones waiting in the topic."""

    lane: LaneUnderTest
    target: Target
    topic: Topic
    #: N: the epoch that the states are about
    epoch: int = EARLIER

    @property
    def gid(self) -> Gid:
        """The name that the lane itself would give to the epoch's transaction."""
        last = self.target.ledger()
        assert last is not None, "it has run"
        return Gid(self.lane.name, last.generation, self.epoch)

    @property
    def span(self) -> Span:
        """What the epoch made by hand reads."""
        start = self.target.position()
        return Span(start=start, end=self._at(start[self._tp] + PLANNED))

    def plan(self) -> None:
        """W: write offsets/N."""
        folder = self.lane.checkpoint / "offsets"
        version, metadata, _ = (folder / str(self.epoch - 1)).read_text().split("\n", 2)
        (folder / str(self.epoch)).write_text("\n".join([version, metadata, self.span.end.to_json()]))

    def decide(self) -> None:
        """C: write commits/N."""
        files = self.lane.checkpoint_files
        files.commit_file(self.epoch).write_bytes(files.commit_file(self.epoch - 1).read_bytes())

    def prepare(self, gid: Gid | None = None) -> None:
        """P: apply the epoch as the lane does, up to PREPARE TRANSACTION."""
        gid = gid or self.gid
        with self.target.as_lane.connect() as connection:
            transaction = connection.begin_twophase(str(gid))
            self._write(connection, gid)
            transaction.prepare()
            connection.invalidate()  # its end is not ours to decide

    def apply(self) -> None:
        """L: apply the epoch and commit."""
        with self.target.as_lane.begin() as connection:
            self._write(connection, self.gid)

    def run(self) -> None:
        """Start the lane again and let it catch up."""
        self.lane.run_until_caught_up()

    def recover(self) -> int:
        """Exit status of `surelane recover --from-ledger`."""
        command = [sys.executable, "-m", "app.cli", "recover", "--from-ledger", "--config", str(self.lane.config_file)]
        return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, timeout=COMMAND_SECONDS).returncode

    def since(self, epoch: int) -> list[tuple[int, str]]:
        """(epoch, how) of the ledger's rows from `epoch` on: by hand, duplicate, or applied by the lane."""
        return [(row.epoch, _how(row)) for row in self.target.epochs() if row.epoch >= epoch]

    def questions(self) -> None:
        """What every run has to answer."""
        questions(self.target, self.topic, exactly_once=self.lane.exactly_once)

    @property
    def _tp(self) -> TopicPartition:
        return TopicPartition(self.topic.name, 0)

    def _at(self, offset: int) -> Offsets:
        return Offsets.of({self._tp: offset})

    def _write(self, connection: Connection, gid: Gid) -> None:
        span = self.span
        waiting = [one for one in self.topic.sent if span.start[self._tp] <= one.position.offset < span.end[self._tp]]
        for one in waiting:
            assert one.message.change is not None
            connection.execute(_UPSERT, dict(one.message.change.row or {}))
        counts = Counts(consumed=len(waiting), applied=len(waiting))
        record = EpochRecord(
            lane=gid.lane, generation=gid.generation, epoch=gid.epoch, span=span, counts=counts, plan=BY_HAND
        )
        Ledger(SCHEMA, gid.lane).record(connection, record)


def _how(row: Any) -> str:
    if row.duplicate:
        return "duplicate"
    return BY_HAND if row.plan == BY_HAND else "applied"


def counters(first: int, count: int) -> list[Message]:
    """Changes of a few rows, each seen again and again; `first` numbers them over the whole topic."""
    return [_DEBEZIUM.update(COUNTER, {"id": n % 4, "hits": n}) for n in range(first, first + count)]


MakeScene = Callable[..., Scene]


@pytest.fixture
def scene(lane: MakeLane, target: Target, topic: Topic) -> MakeScene:
    """`scene(mode)`: a lane that has applied EARLIER epochs."""

    def make(mode: CommitMode = CommitMode.TWO_PHASE) -> Scene:
        target.create(COUNTER)
        topic.send(counters(0, EARLIER * EPOCH))
        made = Scene(lane(mode, epoch={"max_messages": EPOCH}), target, topic)
        made.run()
        assert made.lane.checkpoint_files.complete() == list(range(EARLIER)), "each epoch has its entry"
        topic.send(counters(EARLIER * EPOCH, EPOCH))
        return made

    return make


@in_modes()
def test_1000_not_done_is_replayed(scene: MakeScene, mode: CommitMode) -> None:
    """Spark replays the planned epoch, with the very offsets it was planned with."""
    made = scene(mode)
    made.plan()
    planned = made.span
    made.run()
    assert made.since(EARLIER) == [(EARLIER, "applied"), (EARLIER + 1, "applied")]
    assert Offsets.from_nested(made.target.epochs()[EARLIER].end_position) == planned.end
    made.questions()


@in_modes(CommitMode.TWO_PHASE, CommitMode.LEDGER)
def test_1010_prepared_without_entry_is_rolled_back_and_replayed(scene: MakeScene, mode: CommitMode) -> None:
    """Also when the lane was set to another mode in between."""
    made = scene(mode)
    made.plan()
    made.prepare()
    made.run()
    assert made.since(EARLIER) == [(EARLIER, "applied"), (EARLIER + 1, "applied")]
    made.questions()


@in_modes()
def test_1001_database_ahead_is_skipped(scene: MakeScene, mode: CommitMode) -> None:
    """Counted as duplicate; a lane that goes ahead of its checkpoint does not read it."""
    made = scene(mode)
    made.plan()
    made.apply()
    made.run()
    again = [(EARLIER, "duplicate")] if mode is CommitMode.TWO_PHASE else []
    assert made.since(EARLIER) == [(EARLIER, BY_HAND), *again, (EARLIER + 1, "applied")]
    assert made.target.ledger_sum().duplicate == (PLANNED if again else 0)
    made.questions()


@in_modes()
def test_1001_by_losing_the_last_checkpoint_entry(scene: MakeScene, mode: CommitMode) -> None:
    """The same, the other way round: the lane did everything, and commits/<last> is deleted."""
    made = scene(mode)
    made.run()
    made.lane.checkpoint_files.forget_commit(EARLIER)
    made.run()
    again = [(EARLIER, "duplicate")] if mode is CommitMode.TWO_PHASE else []
    assert made.since(EARLIER) == [(EARLIER, "applied"), *again]
    made.questions()


@in_modes(CommitMode.TWO_PHASE, CommitMode.LEDGER)
def test_1110_in_doubt_but_decided_is_committed(scene: MakeScene, mode: CommitMode) -> None:
    """Nothing of it is read again."""
    made = scene(mode)
    made.prepare()
    made.plan()
    made.decide()
    made.run()
    assert made.since(EARLIER) == [(EARLIER, BY_HAND), (EARLIER + 1, "applied")]
    made.questions()


@in_modes(CommitMode.TWO_PHASE, CommitMode.AT_LEAST_ONCE)
def test_1101_done_goes_on(scene: MakeScene, mode: CommitMode) -> None:
    """Nothing happens, however often the lane is started; the next messages follow."""
    made = scene(mode)
    made.run()
    before = made.target.epochs()
    made.run()
    made.run()
    assert made.target.epochs() == before
    made.topic.send(counters(made.topic.end, 1))
    made.run()
    assert made.since(EARLIER) == [(EARLIER, "applied"), (EARLIER + 1, "applied")]
    made.questions()


@in_modes()
def test_1100_lost_stops_and_changes_nothing(scene: MakeScene, mode: CommitMode) -> None:
    """An epoch whose entry exists is in no database: going on would lose it."""
    made = scene(mode)
    made.plan()
    made.decide()
    before = made.target.epochs(), made.target.rows("public.counter"), _files(made)
    with pytest.raises(Diverged, match="recover --from-ledger"):
        made.run()
    assert (made.target.epochs(), made.target.rows("public.counter"), _files(made)) == before


def test_1100_after_a_rollback_by_hand(
    scene: MakeScene, lane_process: MakeProcess, surelane: Callable[..., Ended]
) -> None:
    """The operator's way out, as the command itself prints it: status 6, and the commands of the runbook's section."""
    made = scene()
    gid = made.gid
    made.prepare(gid)
    made.plan()
    made.decide()
    _end_by_hand(made.target, f"rollback prepared '{gid}'")
    stopped = lane_process(made.lane, until_caught_up=True).start()
    assert stopped.wait() == ExitStatus.DIVERGED
    (event,) = stopped.events("stopped")
    page = [one for one in commands("restore-and-replay.md") if one.section == "Stopped with status 6"]
    printed = [line.partition("#")[0].strip() for line in event["hint"].splitlines()[1:]]
    assert printed == [one.text for one in page if "<gid>" not in one.text]
    position = str(made.target.position())
    assert (made.lane.name in event["hint"], f"# from {position};" in event["hint"]) == (True, True)

    def play(_: str, *words: str) -> Ended:
        if words != ("run",):
            return surelane(*words, "--config", str(made.lane.config_file))
        made.run()
        return Ended(0, "", "")

    for one in page:
        one.check(play, gid=str(gid), lane=made.lane.name, position=position)
    made.questions()


def test_0001_recover_twice_is_recovering_once(scene: MakeScene) -> None:
    """An operator who is not sure whether it was done does it again; a sound lane takes no harm from it."""
    made = scene()
    made.run()
    assert [made.recover(), made.recover()] == [ExitStatus.OK, ExitStatus.OK]
    made.topic.send(counters(made.topic.end, 1))
    made.run()
    assert made.target.ledger_sum().duplicate == 0
    made.questions()


def test_0010_orphan_of_a_checkpoint_that_is_gone(scene: MakeScene) -> None:
    """It cannot have been decided: it is rolled back, and its messages are read again."""
    made = scene()
    made.prepare()
    shutil.rmtree(made.lane.checkpoint)
    made.run()
    assert BY_HAND not in [how for _, how in made.since(0)]
    made.questions()


def test_0010_orphan_whose_number_is_complete_in_another_checkpoint(scene: MakeScene) -> None:
    """Epochs are numbered within a checkpoint: the present one's entry of that number decides about another epoch."""
    made = scene()
    orphan = Gid(made.lane.name, made.gid.generation, 0)
    shutil.rmtree(made.lane.checkpoint)
    made.run()
    assert made.lane.checkpoint_files.complete() == [0], "the new checkpoint has an epoch 0, and it is complete"
    made.topic.send(counters(made.topic.end, EPOCH))
    made.target.execute(f"delete from {SCHEMA}.ledger where generation = {orphan.generation} and epoch = 0")
    made.prepare(orphan)
    made.run()
    assert BY_HAND not in [how for _, how in made.since(0)]
    assert made.target.prepared() == []


def test_0001_checkpoint_gone_resumes_from_the_ledger(scene: MakeScene) -> None:
    """With a new checkpoint, and without applying anything twice; in every mode in test_runbook_checkpoint."""
    made = scene()
    shutil.rmtree(made.lane.checkpoint)
    made.run()
    assert made.since(EARLIER) == []
    assert made.lane.checkpoint_files.complete() == [0]
    assert made.target.ledger_sum().applied + made.target.ledger_sum().compacted == (EARLIER + 1) * EPOCH
    made.questions()


@in_modes(CommitMode.TWO_PHASE, CommitMode.AT_LEAST_ONCE)
def test_0001_older_copy_of_the_checkpoint_is_put_aside(scene: MakeScene, mode: CommitMode) -> None:
    """The target knows better; what Spark would replay from the copy has long been applied."""
    made = scene(mode)
    copy = made.lane.checkpoint.with_name("copy")
    shutil.copytree(made.lane.checkpoint, copy)
    made.run()
    made.topic.send(counters(made.topic.end, 2 * EPOCH))
    made.run()
    shutil.rmtree(made.lane.checkpoint)
    shutil.copytree(copy, made.lane.checkpoint)
    made.topic.send(counters(made.topic.end, EPOCH))
    made.run()
    assert made.target.ledger_sum().duplicate == 0
    assert made.target.ledger_sum().consumed == made.topic.end
    kept = [it.name for it in made.lane.checkpoint.parent.glob("checkpoint.*")]
    assert bool(kept) == (mode is CommitMode.TWO_PHASE), "beside, unless the lane goes ahead of its checkpoint"
    made.questions()


@pytest.mark.parametrize("killed", ["before the new file was complete", "before it had its name"])
def test_a_start_that_was_killed_while_it_wrote_the_identity_file(scene: MakeScene, killed: str) -> None:
    """The next one finds the old or the new file, and goes on with the checkpoint that is there."""
    made = scene()
    file, new = (made.lane.checkpoint / name for name in (IDENTITY_FILE, NEW_IDENTITY_FILE))
    if killed == "before the new file was complete":
        new.touch()
    else:
        file.rename(new)
    made.run()
    assert made.since(EARLIER) == [(EARLIER, "applied")]
    assert made.lane.checkpoint_files.complete() == list(range(EARLIER + 1)), "the checkpoint is the same"
    made.questions()


def test_a_first_start_that_was_killed_while_it_made_the_checkpoint(
    lane: MakeLane, target: Target, topic: Topic
) -> None:
    """Nothing was planned yet: the next start is the first."""
    target.create(COUNTER)
    topic.send(counters(0, EPOCH))
    made = Scene(lane(CommitMode.TWO_PHASE), target, topic)
    made.lane.checkpoint.mkdir()
    (made.lane.checkpoint / NEW_IDENTITY_FILE).touch()
    made.run()
    made.questions()


class LateLook(Checkpoint):
    """A checkpoint that was replaced after a start had its first look at it."""

    def __init__(self, spark: ComingSession, location: str, before: CheckpointIdentity) -> None:
        super().__init__(spark, location)
        self._seen: CheckpointIdentity | None = before

    def identity(self) -> CheckpointIdentity | None:
        """At first the old one."""
        seen, self._seen = self._seen, None
        return seen or super().identity()


def test_the_checkpoint_decides_that_is_there_when_the_lock_is_held(scene: MakeScene, spark: SparkSession) -> None:
    """Of two writers that start at once the first replaces the checkpoint and decides an epoch before it is fenced."""
    made = scene()
    before = Checkpoint(ComingSession.of(spark), str(made.lane.checkpoint)).identity()
    assert before is not None
    shutil.rmtree(made.lane.checkpoint)
    made.run()
    made.topic.send(counters(made.topic.end, EPOCH))
    decided = replace(made, epoch=1)
    decided.prepare()
    decided.plan()
    decided.decide()
    name, ledger = made.lane.name, Ledger(SCHEMA, made.lane.name)
    guard = Guard(Attempts(made.target.as_lane, SCHEMA, name), Limits(max_attempts=3, max_losses=5))
    writer = LaneWriter(
        name=name,
        engine=made.target.as_lane,
        ledger=ledger,
        partition=None,
        guard=guard,
        quarantine=Quarantine(SCHEMA, name),
    )
    try:
        open_writers(
            [writer], LateLook(ComingSession.of(spark), str(made.lane.checkpoint), before), Offsets(), "two-phase"
        )
    finally:
        writer.close()
    assert made.target.prepared() == []
    assert BY_HAND in [how for _, how in made.since(1)]


def test_foreign_prepared_transactions_are_not_touched(scene: MakeScene) -> None:
    """Other lanes', other tools', and names that only look like ours."""
    made = scene()
    name = made.lane.name
    foreign = [f"surelane:{name}-2:1:0", f"surelane:{name}.0:1:0", f"surelane:{name}:1", f"surelane:{name}:x:0", "a1b2"]
    _prepare_elsewhere(made.target, foreign)
    made.plan()
    made.prepare()
    made.run()
    assert sorted(made.target.prepared()) == sorted(foreign)
    for gid in foreign:
        _end_by_hand(made.target, f"rollback prepared '{gid}'")
    made.questions()


def _prepare_elsewhere(target: Target, gids: Sequence[str]) -> None:
    target.execute(f"create table {OTHER_TABLE} (id int)")
    for gid in gids:
        with target.engine.connect() as connection:
            transaction = connection.begin_twophase(gid)
            connection.execute(text(f"insert into {OTHER_TABLE} values (1)"))
            transaction.prepare()
            connection.invalidate()


def _end_by_hand(target: Target, statement: str) -> None:
    """What an operator types into psql: outside a transaction block."""
    with target.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(statement))


def _files(scene: Scene) -> dict[str, bytes]:
    """The checkpoint's files, without Surelane's own, which names the newest generation."""
    root = scene.lane.checkpoint
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.endswith(("surelane.json", ".crc"))}
