"""Where a process of pytest-xdist was when it died: its fault handler writes that to a file; the summary shows it."""

import faulthandler
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

_FOLDER = "surelane_traces"
_KEPT = pytest.StashKey[Any]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give each process a folder to write to; in the process that starts them."""
    stash = node.config.stash
    if _KEPT not in stash:
        stash[_KEPT] = TemporaryDirectory()
        node.config.add_cleanup(stash[_KEPT].cleanup)
    node.workerinput[_FOLDER] = stash[_KEPT].name


@pytest.hookimpl(trylast=True)  # behind pytest's own handler
def pytest_configure(config: pytest.Config) -> None:
    """Write to that folder; in each process."""
    own: dict[str, str] = getattr(config, "workerinput", {})
    if folder := own.get(_FOLDER):
        config.stash[_KEPT] = file = Path(folder, own["workerid"]).open("w")  # noqa: SIM115  # as long as it lives
        faulthandler.enable(file)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Show what processes wrote."""
    for name, text in _traces(config):
        terminalreporter.section(f"the end of {name}")
        terminalreporter.write_line(text)


def _traces(config: pytest.Config) -> Iterator[tuple[str, str]]:
    kept = config.stash.get(_KEPT, None)
    if isinstance(kept, TemporaryDirectory):
        for file in sorted(Path(kept.name).iterdir()):
            if text := file.read_text(errors="replace"):
                yield file.name, text
