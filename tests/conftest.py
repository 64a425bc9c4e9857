"""Fixtures of all tests; each concern has a file `fix_*.py` of its own. See README.md."""

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.sampling import TURNS, left_out

pytest.register_assert_rewrite("tests.oracle")  # a failed question shows what it saw

# Examples are the same in every run; `--hypothesis-profile=explore` looks for others. No deadline: machines differ.
settings.register_profile("surelane", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile("surelane")

# A lane under test lives for seconds: what only the optimizing compiler makes faster is slower here. Measured on the
# fencing tests, two Sparks side by side: a seventh of the time. The benchmark measures the real thing.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

pytest_plugins = [
    "tests.worker_traces",
    "tests.fix_servers",
    "tests.fix_target",
    "tests.fix_secured",
    "tests.fix_locked",
    "tests.fix_topic",
    "tests.fix_spark",
    "tests.fix_cluster",
    "tests.fix_decode",
    "tests.fix_lane",
    "tests.fix_http",
    "tests.fix_prometheus",
    "tests.fix_bare_lane",
    "tests.fix_cli",
    "tests.fix_doubt",
    "tests.fix_snapshot",
    "tests.fix_rds",
    "tests.fix_s3",
    "tests.fix_recover",
    "tests.fix_runbook",
    "tests.fix_clusters",
    "tests.fix_replay",
    "tests.fix_dead_letters",
    "tests.fix_bench",
    "tests.fix_container",
    "tests.fix_compose",
    "tests.fix_console",
    "tests.fix_browser",
    "tests.fix_console_scene",
]


def pytest_collection_finish() -> None:
    """Exclude the tests themselves from garbage collection: with them it would be too seldom (see below)."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _collected() -> Iterator[None]:
    """A client of Kafka that waits for the garbage collector keeps a thread key, of which a process has 1,024."""
    yield
    gc.collect()


def pytest_addoption(parser: pytest.Parser) -> None:
    """For tests in any folder."""
    parser.addoption("--full-matrix", action="store_true", help="every case, not only a sample")
    parser.addoption("--turn", type=int, choices=range(TURNS), help="of the tests that start a lane this part only")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say what is left out."""
    if config.getoption("--full-matrix") or (turn := config.getoption("--turn")) is None:
        return None
    return f"sample: of the tests that start a lane turn {turn} of {TURNS} (--turn N); --full-matrix runs all"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only the full matrix has."""
    if config.getoption("--full-matrix", default=False):
        return
    out = left_out(items, config.getoption("--turn", default=None))
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=list(out))
