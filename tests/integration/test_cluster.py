"""Resident tasks on a cluster of Spark: on all of its workers, from a package that the driver ships, and killed."""

import random
import statistics
import threading
import time
from contextlib import suppress
from itertools import chain, pairwise
from pathlib import Path
from typing import Self

import psutil
import pytest

from app.spark.session_options import FOLDER
from tests.fix_cluster import Cluster
from tests.fix_lane import MakeLane, MakeProcess
from tests.fix_target import Target
from tests.fix_topic import NewTopic, Topic
from tests.messages import INT, TEXT, Table
from tests.oracle import Reader, questions
from tests.queries import QUERIES
from tests.queries import Shop as OrderShop
from tests.waiting import eventually
from tests.workload import TABLES, Shop, changes_of_few

EPOCH_MESSAGES = 200
FLAT = Table("flat", {"id": INT, "v": TEXT})
#: a transform that raises where the package is not the one that was sent
_SHIPPED = f"""
import app

def only_there(change):
    if "/{FOLDER}/" not in app.__file__:
        raise RuntimeError(app.__file__)
    return change
"""
KINDS = ("stage process", "task", "daemon", "executor", "worker")
#: of the load, and seconds between two lots of it
LOAD_MESSAGES, LOAD_SECONDS = 30, 0.1
#: seconds between two looks at the ledger
LOOK_SECONDS = 0.02
#: that a kill may cost, of a machine that is busy with other tests
PAUSE_SECONDS = 3.0


def test_a_lane(cluster: Cluster, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    """Both workers stage; no file of the checkout is on their path."""
    target.create(*TABLES)
    cluster.start(workers=2)
    shop, made = Shop(2), lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES}, spark=cluster.spark())
    with Reader(target, topic) as reader:
        process = lane_process(made).start()
        topic.send(shop.messages(10 * EPOCH_MESSAGES))
        process.until(lambda: made.caught_up(topic), why="all of it")
        process.until(lambda: len(cluster.stage_processes()) == 4, why="a stage process on each core")
        assert process.stop() == 0
    questions(target, topic, reader=reader)
    eventually(lambda: not cluster.pythons(), why="no process of a task outlives the lane")


@pytest.mark.full
def test_a_lane_for_each_partition(
    cluster: Cluster, lane: MakeLane, lane_process: MakeProcess, target: Target, new_topic: NewTopic, tmp_path: Path
) -> None:
    """With a module of the user's, which is nowhere but in spark.submit.pyFiles; it is run beside the package that the
    driver has sent."""
    target.create(FLAT)
    topic, module = new_topic(partitions=8), tmp_path / "own" / "shipped.py"
    module.parent.mkdir()
    module.write_text(_SHIPPED)
    cluster.start(workers=2, cores=1)
    made = lane(
        "two-phase",
        topics=(topic,),
        source={"order": "partition"},
        transform="shipped:only_there",
        spark=cluster.spark(**{"spark.submit.pyFiles": str(module)}),
        epoch={"max_messages": EPOCH_MESSAGES},
    )
    process = lane_process(made).start()
    topic.send(changes_of_few(FLAT, random.Random(4), 20 * EPOCH_MESSAGES))
    process.until(lambda: made.caught_up(topic), why="all of it")
    assert process.stop() == 0
    questions(target, topic)


def test_a_query(cluster: Cluster, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic) -> None:
    """Its state is on both workers; an executor that is killed takes its part of it along, and another one loads that
    from the checkpoint."""
    shop = OrderShop(target, topic, seed=6)
    shop.prepare()
    cluster.start(workers=2, cores=1)
    queries = {"by_minute": {**QUERIES["by_minute"], "max_messages": 40}}
    patience = {"message_timeout": "300 seconds"}  # on a busy machine an executor takes half a minute to come back
    made = lane("two-phase", queries=queries, spark=cluster.spark(), guard=patience)
    name = made.of_query("by_minute").name
    process = lane_process(made, arguments=("--query", "by_minute")).start()
    for round_ in range(3):
        shop.send(60)
        process.until(lambda: set(target.position(name).values()) == {topic.end}, why=f"the end of round {round_}")
        executors = cluster.executors()
        executors[round_ % len(executors)].kill()
    shop.send(60)
    process.until(lambda: set(target.position(name).values()) == {topic.end}, why="the end")
    assert process.stop() == 0
    assert shop.result("by_minute") == shop.batch("by_minute")
    assert target.ledger_sum(name).adds_up
    assert target.prepared() == []


def test_a_cluster_that_has_no_core_yet(
    cluster: Cluster, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """The log says so, with what to do; once there is one, the lane goes on."""
    target.create(FLAT)
    cluster.start(workers=0)
    topic.send(changes_of_few(FLAT, random.Random(5), 20))
    made = lane("two-phase", spark=cluster.spark())
    process = lane_process(made).start()
    process.until(lambda: process.events("stage tasks have no core of the Spark session yet"), why="a word")
    (event,) = process.events("stage tasks have no core of the Spark session yet")
    assert (event["running"], "spark.cores.max" in event["hint"]) == (0, True)
    cluster.add_worker()
    process.until(lambda: made.caught_up(topic), why="all of it")
    assert process.stop() == 0
    questions(target, topic)


def test_whatever_is_killed(
    cluster: Cluster, lane: MakeLane, lane_process: MakeProcess, target: Target, topic: Topic
) -> None:
    """Under load: stage processes, tasks, executors and whole workers, which come back. The driver stays the same; what
    other executors stage goes on."""
    target.create(*TABLES)
    cluster.start(workers=2, cores=1)  # so that executors are on both
    chance, made = random.Random(8), lane("two-phase", epoch={"max_messages": EPOCH_MESSAGES}, spark=cluster.spark())
    victims = Victims(cluster, chance)
    with Reader(target, topic) as reader, Load(topic, Shop(9)):
        process = lane_process(made).start()
        process.until(lambda: len(cluster.stage_processes()) == 2, why="both stage processes")
        with Progress(target) as progress:
            process.until(lambda: progress.epochs >= 5, why="the first epochs")
            driver, pauses = process.worker, dict[str, list[float]]()
            for kind in chance.sample(KINDS, len(KINDS)):
                at, epochs = time.monotonic(), progress.epochs
                process.until(lambda kind=kind: victims.kill(kind), why=f"a {kind} to kill")
                process.until(lambda epochs=epochs: progress.epochs >= epochs + 20, why="to go on")
                process.until(lambda: len(cluster.stage_processes()) == 2, why="another one")
                process.until(
                    lambda: len(cluster.pythons()) == 6, why="no orphans: two daemons, tasks, stage processes"
                )
                pauses.setdefault(kind, []).append(progress.longest(since=at))
    process.until(lambda: made.caught_up(topic), why="the rest")
    assert process.worker == driver, "the driver has not died"
    assert process.stop() == 0
    print({kind: [round(one, 2) for one in found] for kind, found in pauses.items()})
    assert statistics.median(chain.from_iterable(pauses.values())) < PAUSE_SECONDS, pauses
    questions(target, topic, reader=reader)
    eventually(lambda: not cluster.pythons(), why="no process of a task outlives the lane")


class Victims:
    """What may be killed."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self._cluster, self._chance = cluster, chance

    def kill(self, kind: str) -> bool:
        """SIGKILL to one of this kind, if there is one; another worker takes the place of one."""
        with suppress(psutil.NoSuchProcess):
            if found := self._of(kind):
                self._chance.choice(found).kill()
                if kind == "worker":
                    self._cluster.add_worker(cores=1)
                return True
        return False

    def _of(self, kind: str) -> list[psutil.Process]:
        match kind:
            case "stage process":
                return self._cluster.stage_processes()
            case "task":
                return self._cluster.tasks()
            case "daemon":
                return self._cluster.daemons()
            case "executor":
                return self._cluster.executors()
            case _:
                return [one for one in self._cluster.workers if self._cluster.executors(one)]


class Load:
    """A shop that goes on and on."""

    def __init__(self, topic: Topic, shop: Shop) -> None:
        self._topic, self._shop, self._stop = topic, shop, threading.Event()
        self._thread = threading.Thread(target=self._send, name="load", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        while not self._stop.wait(LOAD_SECONDS):
            self._topic.send(self._shop.messages(LOAD_MESSAGES))


class Progress:
    """When epochs became visible."""

    def __init__(self, target: Target) -> None:
        self._target, self._stop = target, threading.Event()
        self._seen: list[float] = []
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def epochs(self) -> int:
        """Looks that saw another one than the look before."""
        return len(self._seen)

    def longest(self, since: float) -> float:
        """Seconds without one, at most."""
        moments = [since, *(one for one in self._seen if one > since)]
        return max(after - before for before, after in pairwise(moments))

    def _watch(self) -> None:
        last = None
        while not self._stop.wait(LOOK_SECONDS):
            now = self._target.execute("select count(*), max(epoch) from surelane.ledger")
            if now != last:
                self._seen.append(time.monotonic())
                last = now
