"""A lane's target and topic, and replays of it into other places."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from app.config.settings import Settings
from app.model.offsets import Offsets
from app.replay import tasks
from tests.commands import Ended
from tests.fix_recover import new_database
from tests.fix_target import Target
from tests.fix_topic import Topic
from tests.messages import Table
from tests.oracle import difference, fold, up_to
from tools.devstack import Kafka
from tools.devstack.postgres_binaries import bin_dir
from tools.devstack.roles import LOGIN, OWNER
from tools.devstack.sections import merged

SHADOW = "shadow"


@dataclass
class Replays:
    """`replays(...)` is `surelane replay --into shadow ...`; SURELANE_CONFIG names the configuration."""

    target: Target
    topic: Topic
    surelane: Callable[..., Ended]
    configure: Callable[..., Path]

    def __call__(self, *words: str, into: str = SHADOW) -> Ended:
        return self.surelane(*self.words(*words, into=into))

    def words(self, *words: str, into: str = SHADOW) -> tuple[str, ...]:
        """Of the command line."""
        return ("replay", "--into", into, *words)

    def json(self, *words: str, into: str = SHADOW) -> dict[str, Any]:
        """What `--json` prints of one that went well."""
        ended = self(*words, "--json", into=into)
        assert ended.status == 0, ended.err
        return json.loads(ended.out)

    def equals_fold(
        self, *tables: Table, start: int = 0, end: int | None = None, schema: str = SHADOW, at: Target | None = None
    ) -> None:
        """The tables there hold what the messages between the two offsets make, and nothing else."""
        end = self.topic.end if end is None else end
        sent = [one for one in self.topic.sent if start <= one.position.offset < end]
        expected = fold(sent)
        for table in tables:
            found = (at or self.target).rows(f"{schema}.{table.name}")
            text = difference(table.full_name, found, expected.get(table.full_name, {}))
            assert text is None, text

    def at(self, offset: int) -> str:
        """A position as it is typed."""
        return f"{self.topic.name}[0]@{offset}"

    def epochs(self, schema: str = f"{SHADOW}_replay") -> list[Any]:
        """Rows of the replay's own ledger, without its beginning."""
        rows = self.target.execute(f'select * from "{schema}".ledger where epoch >= 0 order by generation, epoch')
        return list(rows)

    def expected(self, position: Offsets) -> dict[str, Any]:
        """The fold up to a position."""
        return fold(up_to(self.topic.sent, position))


@pytest.fixture
def replays(
    kafka: Kafka,
    target: Target,
    topic: Topic,
    surelane: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Replays:
    """The lane need not ever have run: `replays.configure(**overrides)` writes its configuration anew.

    Its role may make schemas, which no lane has to. Calls in this process use its one Spark session.
    """

    @contextmanager
    def session(_: Settings) -> Iterator[SparkSession]:
        yield request.getfixturevalue("spark")

    monkeypatch.setattr(tasks, "session", session)
    target.execute(f'grant create on database "{target.database}" to {OWNER}')

    def configure(**overrides: Any) -> Path:
        raw = {
            "lane": target.lane,
            "source": {"bootstrap_servers": kafka.bootstrap, "topics": [topic.name]},
            "target": target.section,
            "epoch": {"max_messages": 40},
            "metrics": {"port": 0},
            "snapshots": {"bin_dir": str(bin_dir())},
        }
        file = tmp_path / "surelane.yaml"
        file.write_text(yaml.safe_dump(merged(raw, overrides)))
        return file

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SURELANE_CONFIG", str(configure()))
    return Replays(target, topic, surelane, configure)


@pytest.fixture
def another_database(target: Target) -> Iterator[Target]:
    """An empty one, of the lane's login, which takes no other role there."""
    undo: list[Callable[[], None]] = []
    made = new_database(target, "rebuilt", undo)
    target.server.create_database(made.database, LOGIN)
    yield made
    for one in undo:
        one()
