"""The container's health check says what the lane's own server says, and why it cannot be asked."""

import os
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from app import healthcheck
from app.metrics.health import Health
from app.metrics.server import serve


@pytest.fixture
def health(monkeypatch: pytest.MonkeyPatch) -> Iterator[Health]:
    """Served on the port that the environment names."""
    health = Health()
    server = serve("127.0.0.1", 0, CollectorRegistry(), health)
    monkeypatch.setenv("SURELANE_METRICS__PORT", str(server.port))
    yield health
    server.stop()


def test_live_and_ready_are_distinguished(health: Health, capsys: pytest.CaptureFixture[str]) -> None:
    assert (healthcheck.main(), healthcheck.main("/readyz")) == (0, 1)
    health.report("a", ready=True, reason="applies")
    assert (healthcheck.main(), healthcheck.main("/readyz")) == (0, 0)
    health.report("a", ready=False, live=False, reason="gave up")
    assert (healthcheck.main(), healthcheck.main("/readyz")) == (1, 1)
    assert "a: gave up" in capsys.readouterr().out


def test_no_server_listens(health: Health, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SURELANE_METRICS__PORT", "1")
    assert healthcheck.main() == 1
    assert "no answer on port 1" in capsys.readouterr().out


@pytest.mark.parametrize("port", [None, "", "0", "null"])
def test_without_a_port_it_says_what_to_do(
    port: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SURELANE_METRICS__PORT", raising=False)
    if port is not None:
        monkeypatch.setenv("SURELANE_METRICS__PORT", port)
    assert healthcheck.main() == 1
    assert "give it a port" in capsys.readouterr().out


def test_a_container_of_something_else_has_its_own_port(health: Health, monkeypatch: pytest.MonkeyPatch) -> None:
    """The console's: the lane's variable stays what the lane has."""
    monkeypatch.setenv("SURELANE_HEALTH_PORT", os.environ["SURELANE_METRICS__PORT"])
    monkeypatch.setenv("SURELANE_METRICS__PORT", "1")
    assert healthcheck.main() == 0
