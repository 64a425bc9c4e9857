"""The docs name what the code has: every key, every exit status, every verb."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from app.cli.main import VERBS
from app.config.load import load
from app.config.settings import CommitMode, Settings
from app.errors import ExitStatus

TOP = Path(__file__).resolve().parents[2]


def keys(model: type[BaseModel] = Settings, above: str = "") -> list[str]:
    found: list[str] = []
    for name, field in model.model_fields.items():
        path = above + (field.alias or name)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found += keys(kind, f"{path}.")
        else:
            found.append(path)
    return found


@pytest.mark.parametrize("key", keys())
def test_every_key_is_documented(key: str) -> None:
    variable = f"SURELANE_{key.replace('.', '__').upper()}"
    assert f"| `{key}` | `{variable}` |" in (TOP / "docs/CONFIG.md").read_text()


@pytest.mark.parametrize("status", list(ExitStatus))
def test_every_exit_status_is_documented(status: ExitStatus) -> None:
    assert f"\n| {status.value} | " in (TOP / "docs/CLI.md").read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented(verb: str) -> None:
    assert f"\n| `{verb}" in (TOP / "docs/CLI.md").read_text()


def test_the_example_is_valid_and_complete() -> None:
    example = TOP / "ops/surelane.yaml"
    assert load(example).mode is CommitMode.TWO_PHASE
    text = example.read_text()
    assert [key for key in keys() if f"{key.rpartition('.')[2]}:" not in text] == []
