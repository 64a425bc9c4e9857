"""What a lane process serves: metrics and health, as Prometheus and a load balancer ask for them."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tools.devstack.ports import remembered_port


class Http:
    """The process' HTTP server."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> tuple[int, str]:
        """Status and body; (0, "") when no server listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    @property
    def settings(self) -> dict[str, object]:
        """What the lane's configuration says."""
        return {"port": self.port, "host": "127.0.0.1"}


class Metrics:
    """A scrape of /metrics."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {family.name: family for family in text_string_to_metric_families(text)}

    def value(self, name: str, **labels: str) -> float:
        """The one sample of that name which has these labels; 0 for a counter that was never counted."""
        samples = [sample for family in self.families.values() for sample in family.samples if sample.name == name]
        found = [sample.value for sample in samples if labels.items() <= sample.labels.items()]
        assert len(found) <= 1, f"{name}{labels} is not one sample: {found}"
        return found[0] if found else 0.0


@pytest.fixture
def http(tmp_path: Path) -> Http:
    """A free port to serve metrics on."""
    return Http(remembered_port(tmp_path / "port"))
