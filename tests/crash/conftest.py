"""The crash tests stop and kill servers, so they have a stack of their own, which no other test uses."""

import os
import uuid
from collections.abc import Iterator

import pytest

from tests.crash.cases import matrix, sample
from tests.crash.killing import Kills
from tests.fix_lane import MakeProcess
from tests.fix_proxy import Proxy, proxy_to
from tests.fix_target import TEMPLATE, Target, make_target
from tools.devstack import Kafka, Postgres, Stack

DEFAULT_SEED = 1


def pytest_addoption(parser: pytest.Parser) -> None:
    """Known to pytest when a path below tests/crash is named on the command line."""
    group = parser.getgroup("crash tests")
    group.addoption("--seed", type=int, default=DEFAULT_SEED, help="of the sample, the workload and the moments")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the argument `case` runs once for each case of the matrix, or of the sample."""
    if "case" in metafunc.fixturenames:
        cases = (
            matrix() if metafunc.config.getoption("--full-matrix", default=False) else sample(_seed(metafunc.config))
        )
        metafunc.parametrize("case", cases, ids=str)


def _seed(config: pytest.Config) -> int:
    return config.getoption("--seed", default=None) or DEFAULT_SEED


@pytest.fixture
def seed(pytestconfig: pytest.Config) -> int:
    """What `--seed` says."""
    return _seed(pytestconfig)


@pytest.fixture
def kills(pytestconfig: pytest.Config, lane_process: MakeProcess, seed: int) -> Kills:
    """Of a lane or a query that the test has made."""
    is_full = bool(pytestconfig.getoption("--full-matrix", default=False))
    return Kills(lane_process, seed, is_full)


@pytest.fixture(scope="session")
def servers() -> Iterator[Stack]:
    """The crash tests' own stack."""
    stack = Stack(f"test-crash-{os.getpid()}-{uuid.uuid4().hex[:6]}")
    try:
        yield stack
    finally:
        stack.down(wipe=True)


@pytest.fixture(scope="session")
def kafka(servers: Stack) -> Kafka:
    """A broker to be stopped."""
    servers.up(kafka=True, connect=False, source=False, target=False)
    return servers.kafka


@pytest.fixture(scope="session")
def target_server(servers: Stack) -> Postgres:
    """A Postgres to be stopped."""
    servers.up(kafka=False, connect=False, source=False, target=True)
    return servers.target


@pytest.fixture(scope="session")
def template(target_server: Postgres) -> str:
    """Name of the migrated template database, in that server."""
    make_target(target_server, TEMPLATE)
    return TEMPLATE


@pytest.fixture
def proxy(target: Target) -> Iterator[Proxy]:
    """The network between the lane and the target."""
    with proxy_to(target.url) as proxy:
        yield proxy
