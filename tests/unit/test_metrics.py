"""Metrics as Prometheus reads them, and the answers of the health checks."""

import math
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from app.errors import EnvironmentMissing
from app.metrics.freshness import BOUNDS, Freshness
from app.metrics.health import Health
from app.metrics.lane_metrics import LaneMetrics
from app.metrics.server import MAX_CONNECTIONS, MetricsServer, serve
from app.model.counts import Counts
from app.model.epoch import EpochRecord
from app.model.offsets import Offsets, Span, TopicPartition
from tests.waiting import eventually

TP = TopicPartition("shop.cdc", 0)
COUNTS = Counts(consumed=10, applied=5, compacted=2, filtered=3)


def record(epoch: int = 7, end: int = 20) -> EpochRecord:
    span = Span(start=Offsets.of({TP: 10}), end=Offsets.of({TP: end}))
    return EpochRecord(lane="orders", generation=2, epoch=epoch, span=span, counts=COUNTS)


def test_connections_that_send_nothing(server: MetricsServer) -> None:
    """They neither keep others from an answer, nor make threads without end."""
    threads = threading.active_count()
    with ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))
        begun = time.monotonic()
        status, _ = get(server, "/metrics")
        took = time.monotonic() - begun
        assert status == 200
        assert took < 1
        assert threading.active_count() <= threads + MAX_CONNECTIONS
    eventually(lambda: threading.active_count() <= threads, why="the threads to end")


def test_a_request_that_comes_byte_by_byte_is_ended(server: MetricsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes in time, all of them would take hours."""
    monkeypatch.setattr("app.metrics.server.REQUEST_TIMEOUT_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", server.port), timeout=0.05) as slow:

        def ended() -> bool:
            try:
                slow.sendall(b"G")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        eventually(ended, 8, "the server to end it")


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
def server(registry: CollectorRegistry, health: Health) -> Iterator[MetricsServer]:
    running = serve("127.0.0.1", 0, registry, health)
    yield running
    running.stop()


def get(server: MetricsServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(f"surelane_{name}", {"lane": "orders", **labels})


def test_an_epoch(registry: CollectorRegistry) -> None:
    metrics = LaneMetrics("orders", registry)
    for epoch in (7, 8):
        metrics.epoch_done(record(epoch), {"decode": 0.2, "merge": 0.1}, np.array([0.3, 4.0]))
    assert value(registry, "epochs_total") == 2
    assert value(registry, "messages_consumed_total") == 20
    assert value(registry, "messages_total", outcome="applied") == 10
    assert value(registry, "messages_total", outcome="filtered") == 6
    assert value(registry, "epoch_step_seconds_sum", step="decode") == pytest.approx(0.4)
    assert value(registry, "freshness_seconds_count") == 4
    assert value(registry, "freshness_seconds_bucket", le="0.3") == 2
    assert value(registry, "position", topic="shop.cdc", partition="0") == 20
    assert value(registry, "generation") == 2
    assert value(registry, "epoch") == 8


def test_lanes_share_a_registry(registry: CollectorRegistry) -> None:
    one, other = LaneMetrics("orders.0", registry), LaneMetrics("orders.1", registry)
    one.restarted("kafka")
    other.fallback("faithful")
    assert registry.get_sample_value("surelane_restarts_total", {"lane": "orders.0", "cause": "kafka"}) == 1
    assert registry.get_sample_value("surelane_fallbacks_total", {"lane": "orders.1", "plan": "faithful"}) == 1


def test_gauges(registry: CollectorRegistry) -> None:
    metrics = LaneMetrics("orders", registry)
    metrics.set_lag({TP: 12}, None)
    metrics.set_in_doubt(1, 2.5)
    metrics.set_prepared_slots(3, 64)
    assert value(registry, "lag_messages", topic="shop.cdc", partition="0") == 12
    assert math.isnan(value(registry, "lag_seconds") or 0)
    assert value(registry, "in_doubt_transactions") == 1
    assert value(registry, "in_doubt_age_seconds") == 2.5
    assert value(registry, "prepared_slots_used") == 3
    assert value(registry, "prepared_slots_limit") == 64


def test_counters_are_there_before_they_count(registry: CollectorRegistry) -> None:
    """Else Prometheus would not see their first increase."""
    LaneMetrics("orders", registry)
    for outcome in ("applied", "compacted", "filtered", "duplicate", "quarantined"):
        assert value(registry, "messages_total", outcome=outcome) == 0
    for name in ("epochs_total", "messages_consumed_total", "guard_lost_seconds_total"):
        assert value(registry, name) == 0
    assert value(registry, "messages_total", outcome="consumed") is None


def test_the_time_of_the_last_check(registry: CollectorRegistry) -> None:
    metrics = LaneMetrics("orders", registry)
    assert value(registry, "monitor_last_timestamp_seconds") is None, "absent, not 1970"
    metrics.monitored(1_700_000_000.5)
    assert value(registry, "monitor_last_timestamp_seconds") == 1_700_000_000.5


def test_the_guard(registry: CollectorRegistry) -> None:
    metrics = LaneMetrics("orders", registry)
    metrics.set_guard(suspects=2, narrowing=25, depth=1, begun_at=time.monotonic() - 100)
    metrics.lost(1.5)
    metrics.lost(2)
    names = ("suspects", "narrowing_messages", "narrowing_depth", "attempts_in_progress", "lost_seconds_total")
    assert [value(registry, f"guard_{name}") for name in names] == [2, 25, 1, 1, 3.5]
    first = value(registry, "guard_attempt_seconds") or 0
    assert 100 <= first <= (value(registry, "guard_attempt_seconds") or 0), "it goes on between two scrapes"
    metrics.set_guard(suspects=0, narrowing=0, depth=0, begun_at=None)
    assert [value(registry, f"guard_{name}") for name in names] == [0, 0, 0, 0, 3.5]
    assert value(registry, "guard_attempt_seconds") == 0


def test_the_quarantine(registry: CollectorRegistry) -> None:
    LaneMetrics("orders", registry).set_quarantine({"quarantined": 3, "parked": 40}, parked_keys=2)
    assert value(registry, "quarantine_open", state="quarantined") == 3
    assert value(registry, "quarantine_open", state="parked") == 40
    assert value(registry, "guard_parked_keys") == 2


def test_one_state_at_a_time(registry: CollectorRegistry) -> None:
    metrics = LaneMetrics("orders", registry)
    assert value(registry, "up") == 0
    metrics.set_state("running")
    assert value(registry, "up") == 1
    assert [value(registry, "state", state=state) for state in ("starting", "running", "failed")] == [0, 1, 0]
    with pytest.raises(ValueError, match="not a state"):
        metrics.set_state("asleep")


@given(st.lists(st.lists(st.floats(0, 1e6) | st.sampled_from(BOUNDS), max_size=50), max_size=4))
def test_freshness_counts_as_a_histogram_does(epochs: list[list[float]]) -> None:
    registry = CollectorRegistry()
    freshness = Freshness("f", registry)
    for epoch in epochs:
        freshness.add("a", np.array(epoch, dtype=np.float64))
    everything = [seconds for epoch in epochs for seconds in epoch]
    for bound in BOUNDS if epochs else ():
        below = sum(seconds <= bound for seconds in everything)
        assert registry.get_sample_value("f_bucket", {"lane": "a", "le": str(bound)}) == below
    if epochs:
        assert registry.get_sample_value("f_count", {"lane": "a"}) == len(everything)
        assert registry.get_sample_value("f_sum", {"lane": "a"}) == pytest.approx(sum(everything))


def test_freshness_without_a_source_time(registry: CollectorRegistry) -> None:
    freshness = Freshness("f", registry)
    freshness.add("a", np.array([np.nan, -2.0, 1.0]))
    assert registry.get_sample_value("f_count", {"lane": "a"}) == 2
    assert registry.get_sample_value("f_sum", {"lane": "a"}) == 1.0


def test_metrics_are_served(server: MetricsServer, registry: CollectorRegistry) -> None:
    LaneMetrics("orders", registry).set_state("running")
    status, text = get(server, "/metrics")
    assert status == 200
    assert 'surelane_up{lane="orders"} 1.0' in text


def test_health_answers(server: MetricsServer, health: Health) -> None:
    assert get(server, "/healthz") == (200, "alive\n")
    assert get(server, "/readyz") == (503, "no lane has started yet\n")
    health.report("orders.0", ready=True, reason="running")
    health.report("orders.1", ready=False, reason="starting")
    assert get(server, "/readyz") == (503, "orders.1: starting\n")
    health.report("orders.1", ready=True, reason="running")
    assert get(server, "/readyz") == (200, "ready\n")
    health.report("orders.0", ready=False, live=False, reason="gave up")
    assert get(server, "/healthz") == (503, "orders.0: gave up\n")


def test_other_paths(server: MetricsServer) -> None:
    assert get(server, "/")[0] == 404


def test_a_port_that_is_taken(server: MetricsServer, registry: CollectorRegistry, health: Health) -> None:
    with pytest.raises(EnvironmentMissing, match=str(server.port)):
        serve("127.0.0.1", server.port, registry, health)
