"""Kafka and the target's Postgres: real servers, one of each for a whole test session, started when first asked for.

Their data directory is the session's own, so that several sessions run side by side; it is gone afterwards.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tools.devstack import Kafka, Postgres, Stack
from tools.devstack.places import root_dir

#: their places in a session's folder
SECURED, LOCKED = "secured", "locked"


@pytest.fixture(scope="session")
def servers() -> Iterator[Stack]:
    """The session's stack, of which nothing runs yet."""
    _clear_away_what_killed_sessions_left()
    stack = Stack(f"test-{os.getpid()}-{uuid.uuid4().hex[:6]}")
    try:
        yield stack
    finally:
        stack.down(wipe=True)


def _clear_away_what_killed_sessions_left() -> None:
    """The name of a session's directory says which process made it; one that is gone needs its servers no more."""
    for folder in root_dir().glob("test-*-*"):
        maker = folder.name.split("-")[1]
        if maker.isdigit() and not psutil.pid_exists(int(maker)):
            Kafka(folder / SECURED).kill()  # servers that are no part of a stack: fix_secured.py, fix_locked.py
            Postgres(folder / LOCKED).kill()
            with suppress(FileNotFoundError):  # another worker has just done it
                Stack(folder.name).down(wipe=True)


@pytest.fixture(scope="session")
def kafka(servers: Stack) -> Kafka:
    """A running broker."""
    servers.up(kafka=True, connect=False, source=False, target=False)
    return servers.kafka


@pytest.fixture(scope="session")
def capturing(servers: Stack) -> Stack:
    """With a running source and Debezium: `capture(database, topic, config)` starts a connector."""
    servers.up(target=False, capture=False)
    return servers


@pytest.fixture(scope="session")
def target_server(servers: Stack) -> Postgres:
    """A running Postgres with max_prepared_transactions=64."""
    servers.up(kafka=False, connect=False, source=False, target=True)
    return servers.target
