"""The command line in this process: what it prints, and the status it ends with."""

import json
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml
from sqlalchemy import Engine

from app.cli.main import main
from app.db.engine import make_engine
from tests.fix_target import give_roles, sqlalchemy_url
from tools.devstack import Kafka, Postgres
from tools.devstack.roles import LOGIN, OWNER


@dataclass(frozen=True)
class Ended:
    """How a call ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


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
def surelane(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ended]:
    """Call a verb: `surelane("status", "--json")`."""

    def call(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["surelane", *arguments])
        structlog.reset_defaults()
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Ended(int(ended.value.code or 0), out, err)

    return call


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
