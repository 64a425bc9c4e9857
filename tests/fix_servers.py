"""Kafka and the target's Postgres: real servers, one of each for a whole test session, started when first asked for.

Their data directory is the session's own, so that several sessions run side by side; it is gone afterwards.
"""

import os
import uuid
from collections.abc import Iterator

import pytest

from app.embedded import Kafka, Postgres, Stack


@pytest.fixture(scope="session")
def servers() -> Iterator[Stack]:
    """The session's stack, of which nothing runs yet."""
    stack = Stack(f"test-{os.getpid()}-{uuid.uuid4().hex[:6]}")
    try:
        yield stack
    finally:
        stack.down(wipe=True)


@pytest.fixture(scope="session")
def kafka(servers: Stack) -> Kafka:
    """A running broker."""
    servers.up(kafka=True, connect=False, source=False, target=False)
    return servers.kafka


@pytest.fixture(scope="session")
def target_server(servers: Stack) -> Postgres:
    """A running Postgres with max_prepared_transactions=64."""
    servers.up(kafka=False, connect=False, source=False, target=True)
    return servers.target
