"""The table of systems: what each promises, and how it is started."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tools.peers import debezium, flink, javajobs, lane, replication, seatunnel
from tools.peers.child import Running
from tools.testbed.backlog import Backlog
from tools.testbed.servers import Servers

#: settings, log and checkpoints of each system's last run; emptied before the next
FOLDER = Path("var/bench/peers")


@dataclass(frozen=True, kw_only=True)
class System:
    """A measured system."""

    name: str
    #: its name in full and its delivery guarantee
    described: str = ""
    #: starts it at the beginning of a topic, with an empty folder; None: it is no process
    start: Callable[[Servers, str, Path], AbstractContextManager[Running]] | None
    #: of `lane.MODES`; None: it is no lane of Surelane
    mode: str | None = None
    #: fetches and compiles what it needs, unless that is cached, so that no measurement includes it
    fetch: Callable[[], object] = lambda: None
    #: makes its source of a backlog, unless it reads the topic
    prepare: Callable[[Servers, Backlog], object] = lambda *_: None
    #: has a source of its own that the pacer writes, instead of the topic
    has_source: bool = False

    @property
    def is_lane(self) -> bool:
        """A lane has a ledger, and must leave nothing prepared."""
        return self.mode is not None

    @property
    def can_be_away(self) -> bool:
        """Whether it is a client of the target, so that a distance to it means something."""
        return self.start is not None and not self.has_source

    @contextmanager
    def running(self, servers: Servers, topic: str) -> Iterator[Running]:
        """Start it; stop it at the end of the block."""
        assert self.start is not None, f"{self.name} is no process"
        folder = (FOLDER / self.name).resolve()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with self.start(servers, topic, folder) as started:
            yield started


def of_lane(name: str, described: str = "", mode: str | None = None, **options: Any) -> System:
    """A lane, in two phases by default; `options` as `lane.running` has them."""
    mode = mode or lane.TWO_PHASE

    def start(servers: Servers, topic: str, _: Path) -> AbstractContextManager[Running]:
        return lane.running(servers, topic, mode, **options)

    return System(name=name, described=described, start=start, mode=mode, fetch=lane.compile_modules)


def of_flink(name: str, described: str = "", **options: Any) -> System:
    """A job of Flink; `options` as `flink.running` has them."""
    fetch = partial(javajobs.classes, "flink")
    return System(name=name, described=described, start=partial(flink.running, **options), fetch=fetch)


SURELANE, LEDGER, CEILING, REPLICATION = "surelane", "surelane-ledger", "ceiling", "replication"
FLINK_TABLE, FLINK_XA, SEATUNNEL, DEBEZIUM_JDBC = "flink-table", "flink-xa", "seatunnel-xa", "debezium-jdbc"
#: lanes by mode
LANES = {
    mode: of_lane(SURELANE if mode == lane.TWO_PHASE else f"{SURELANE}-{mode}", f"Surelane, {promise}", mode)
    for mode, promise in {
        lane.TWO_PHASE: "two-phase: exactly once",
        "ledger": "position and data in one transaction: exactly once",
        "at-least-once": "at least once",
    }.items()
}
_ALL = (
    *LANES.values(),
    of_flink(FLINK_TABLE, "Flink 1.20 SQL, JDBC table: at least once", job="TableJob"),
    of_flink(
        FLINK_XA,
        "Flink 1.20 DataStream, exactly-once JDBC sink over XA; a MERGE of the rows of an array, which an operator "
        "collects, both written for this page: exactly once",
        job="XaJob",
    ),
    System(
        name=SEATUNNEL,
        described="Apache SeaTunnel 2.3, its own engine, JDBC sink with `is_exactly_once` (XA): exactly once",
        start=seatunnel.running,
        fetch=partial(javajobs.classes, "seatunnel"),
    ),
    System(
        name=DEBEZIUM_JDBC,
        described="Debezium 3.5 JDBC sink, its fastest setting: at least once",
        start=debezium.running,
        fetch=debezium.pieces,
    ),
    System(
        name=REPLICATION,
        described="Postgres' own logical replication, without Kafka: exactly once; the same changes in a source "
        f"database, {replication.CHANGES} in a transaction",
        start=replication.running,
        prepare=replication.prepare,
        has_source=True,
    ),
    System(name=CEILING, described="COPY and MERGE of rows that are ready, one connection", start=None),
)
SYSTEMS: Mapping[str, System] = {one.name: one for one in _ALL}
