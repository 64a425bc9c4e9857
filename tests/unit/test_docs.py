"""The docs name what the code has: every key, every exit status, every verb; what is made of the code is up to date."""

import re
from pathlib import Path

import pytest

from app.cli.main import VERBS
from app.config.loader import load
from app.config.settings import CommitMode
from app.errors import ExitStatus
from ops import reference
from ops.reference import TABLE, Key, keys
from tools.cli.main import VERBS as TOOL_VERBS

TOP = Path(__file__).resolve().parents[2]
KEYS = list(keys())
CONFIG, CLI = ((TOP / "docs" / name).read_text() for name in ("CONFIG.md", "CLI.md"))


@pytest.mark.parametrize("document", reference.DOCUMENTS, ids=lambda document: document.name)
def test_what_is_made_of_code_is_up_to_date(document: Path) -> None:
    page = document.read_text()
    assert page == reference.DOCUMENTS[document](page), "python -m ops.reference"


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_every_key_is_documented(key: Key) -> None:
    variable = f"`SURELANE_{key.path.replace('.', '__').upper()}`" if TABLE not in key.path else ""
    assert f"\n| `{key.path}` | {variable} | " in CONFIG


def test_a_key_that_is_gone_and_a_default_that_is_another_are_seen() -> None:
    stale = CONFIG.replace("| `3` | Restarts in all.", "| `4` | Restarts in all.").replace(
        "| `lane` |", "| `gone` | `SURELANE_GONE` | none | What was. |\n| `lane` |", 1
    )
    assert stale.count("| `4` | Restarts") == stale.count("| `gone` |") == 1
    assert reference.configuration(stale) == CONFIG


def test_a_key_without_meaning_and_a_missing_word_are_faults() -> None:
    stale = re.sub(r"^\| `metrics.host` .*\n", "", CONFIG, flags=re.MULTILINE).replace("`failure-rate`, ", "", 1)
    with pytest.raises(ValueError, match=r"restart\.strategy takes `failure-rate`.*metrics\.host has no row"):
        reference.configuration(stale)


def test_every_exit_status_is_documented() -> None:
    """And no other."""
    section = CLI.partition("## Exit statuses")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (\d+) \| ", section, re.MULTILINE) == [str(status.value) for status in ExitStatus]


@pytest.mark.parametrize("verb", [*(f"surelane {verb}" for verb in VERBS), *(f"./run {verb}" for verb in TOOL_VERBS)])
def test_every_verb_is_documented(verb: str) -> None:
    assert f"\n| [`{verb}" in CLI
    assert f"\n### `{verb}" in CLI


def test_the_example_is_valid_and_complete() -> None:
    example = TOP / "ops/surelane.yaml"
    assert load(example).mode is CommitMode.TWO_PHASE
    text = example.read_text()
    assert [key.path for key in KEYS if f"{key.path.rpartition('.')[2]}:" not in text] == []


def test_the_first_lane_of_the_readme_is_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "surelane.yaml"
    file.write_text((TOP / "README.md").read_text().partition("<<'END'\n")[2].partition("END\n")[0])
    assert load(file).lane == "orders"
