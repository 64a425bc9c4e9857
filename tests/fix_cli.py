"""The command line in this process: what it prints, and the status it ends with."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from sqlalchemy import Engine

from app.db.engine import make_engine
from tests.commands import Ended, here
from tests.fix_target import give_roles, sqlalchemy_url
from tools.devstack import Kafka, Postgres
from tools.devstack.roles import LOGIN, OWNER


@dataclass(frozen=True)
class Site:
    """A lane's surroundings, made for one test: a topic, a database, a configuration."""

    kafka: Kafka
    target: Postgres
    topic: str
    database: str
    folder: Path
    surelane: Callable[..., Ended]

    @property
    def engine(self) -> Engine:
        """As the lane."""
        return make_engine(sqlalchemy_url(self.target, self.database, LOGIN), OWNER)

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """As superuser in the target database."""
        return self.target.execute(statement, database=self.database)

    def configure(self, **more: dict[str, object]) -> None:
        """Write surelane.yaml; `more` goes on top of each section."""
        sections: dict[str, dict[str, object]] = {
            "source": {"bootstrap_servers": self.kafka.bootstrap, "topics": [self.topic]},
            "target": {"url": self.target.url(self.database, LOGIN), "owner_role": OWNER},
        }
        top = {name: value for name, value in more.items() if name not in sections}
        merged = {name: {**section, **more.get(name, {})} for name, section in sections.items()}
        text = yaml.safe_dump({"lane": "orders", **merged, **top})
        (self.folder / "surelane.yaml").write_text(text)


@pytest.fixture
def surelane() -> Callable[..., Ended]:
    """Call a verb in this process: `surelane("status", "--json")`."""
    return here


@pytest.fixture
def site(
    kafka: Kafka,
    target_server: Postgres,
    surelane: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Site:
    """A new topic and a new database, in a folder with a configuration for them."""
    name = f"cli_{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name)
    target_server.create_database(name)
    give_roles(target_server, name)
    monkeypatch.chdir(tmp_path)
    made = Site(kafka, target_server, name, name, tmp_path, surelane)
    made.configure()
    return made
