"""The systems that can be measured, and how each is started."""

import enum
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.bench import lane
from tools.bench.peers import debezium, flink
from tools.bench.peers.child import Running
from tools.bench.servers import Servers

#: settings, log and checkpoints of each system's last run; emptied before the next
FOLDER = Path("var/bench/peers")
#: of the lane, see `tools.bench.lane.MODES`; epochs have the default size, as in `./run bench`
MODE = "two-phase"


class System(enum.StrEnum):
    """A compared system."""

    SURELANE = "surelane"
    FLINK_TABLE = "flink-table"
    FLINK_XA = "flink-xa"
    DEBEZIUM_JDBC = "debezium-jdbc"
    CEILING = "ceiling"

    @property
    def described(self) -> str:
        """Its name and its delivery guarantee."""
        return _TITLES[self]


_TITLES = {
    System.SURELANE: "Surelane, two-phase: exactly once",
    System.FLINK_TABLE: "Flink 1.20 SQL, JDBC table: at least once",
    System.FLINK_XA: (
        "Flink 1.20 DataStream, exactly-once JDBC sink over XA; a MERGE of the rows of an array, which an operator "
        "collects, both written for this page: exactly once"
    ),
    System.DEBEZIUM_JDBC: "Debezium 3.5 JDBC sink, its fastest setting: at least once",
    System.CEILING: "COPY and MERGE of rows that are ready, one connection",
}


def fetch(systems: Iterable[System]) -> None:
    """Fetch and compile what the systems need unless it is cached, so that no measurement includes it."""
    chosen = set(systems)
    if chosen & {System.FLINK_TABLE, System.FLINK_XA}:
        flink.classes()
    if System.DEBEZIUM_JDBC in chosen:
        debezium.pieces()


@contextmanager
def running(system: System, servers: Servers, topic: str) -> Iterator[Running]:
    """Start the system at the beginning of `topic`, with an empty folder; stop it at the end of the block."""
    folder = (FOLDER / system).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    match system:
        case System.SURELANE:
            starting = lane.running(servers, MODE, topic, until_caught_up=False)
        case System.FLINK_TABLE:
            starting = flink.running(servers, topic, folder, "TableJob")
        case System.FLINK_XA:
            starting = flink.running(servers, topic, folder, "XaJob")
        case System.DEBEZIUM_JDBC:
            starting = debezium.running(servers, topic, folder)
        case System.CEILING:
            raise ValueError("the ceiling is no process")
    with starting as started:
        yield started
