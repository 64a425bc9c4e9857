"""The doctor's checks of this machine, where another process than the lane asks."""

import os
from pathlib import Path

import pytest

from app.cli.doctor_checks.finding import Level
from app.cli.doctor_checks.machine_check import checkpoint
from app.config.settings import Settings


def settings(folder: Path) -> Settings:
    return Settings.of(
        {
            "lane": "orders",
            "source": {"bootstrap_servers": "broker:9092", "topics": ["t"]},
            "target": {"url": "postgresql://host/shop"},
            "checkpoint": str(folder / "checkpoint"),
        }
    )


def test_a_read_only_checkpoint_is_no_fault_of_who_only_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the console's volume: mounted read-only. Its owner would meet a fault there."""
    found = settings(tmp_path)
    assert checkpoint(found, only_looks=True) == checkpoint(found, only_looks=False)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    seen = checkpoint(found, only_looks=True)
    assert (seen.level, "not tried" in seen.message) == (Level.WARN, True)
