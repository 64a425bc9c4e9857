"""The reader of runbooks: it finds the commands of a page, and notices when they print something else."""

import re
from pathlib import Path

import pytest

from app.cli.main import VERBS
from tests.commands import Ended
from tests.runbook import POSTGRES_PROGRAMS, Command, commands, page_names, pattern

PAGE = """# A page

## First

1. Text, and `$ no command`:

       $ surelane list <id>
       head   <n>

       ...
       end

       $ surelane quiet

   More text.

## Second

    $ surelane "two words"
    one
Text
"""


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    monkeypatch.setattr("tests.runbook.FOLDER", tmp_path)
    (tmp_path / "page.md").write_text(PAGE)
    return commands("page.md")


def test_commands(found: list[Command]) -> None:
    assert [(one.section, one.line, one.text) for one in found] == [
        ("First", 7, "surelane list <id>"),
        ("First", 13, "surelane quiet"),
        ("Second", 19, 'surelane "two words"'),
    ]
    assert [one.prints for one in found] == [("head   <n>", "...", "end"), (), ("one",)]
    assert found[0].arguments(id="a b") == ["surelane", "list", "a", "b"]
    assert found[2].arguments() == ["surelane", "two words"]
    with pytest.raises(AssertionError, match="no value"):
        found[0].arguments()


def test_a_check_fails_when_it_prints_something_else(found: list[Command]) -> None:
    first, quiet, _ = found
    first.check(lambda *_: Ended(0, "head 1\n\nx\ny\n", "end\n"), id="1")
    quiet.check(lambda *_: Ended(0, "anything", ""))
    for printed in ("head\nend\n", "head 1\nend\nmore\n", "x\nhead 1\nend\n", ""):
        with pytest.raises(AssertionError, match="something else"):
            first.check(lambda *_, printed=printed: Ended(0, printed, ""), id="1")


@pytest.mark.parametrize(
    ("line", "text", "fits"),
    [
        ("a <b> c", "a x y c", True),
        ("a <b> c", "a c", False),
        ("a <given> c", "a [1] c", True),
        ("a <given> c", "a 1 c", False),
        ("a ... c", "a x c", True),
        ("a.c", "abc", False),
    ],
)
def test_patterns(line: str, text: str, fits: bool) -> None:
    assert bool(re.fullmatch(pattern((line,), {"given": "[1]"}), f"{text}\n")) is fits


@pytest.mark.parametrize("page", page_names())
def test_every_page_s_commands_are_verbs(page: str) -> None:
    assert commands(page)
    for command in commands(page):
        program, first, *_ = command.text.split()
        assert first in VERBS if program == "surelane" else Path(program).name in POSTGRES_PROGRAMS, command
