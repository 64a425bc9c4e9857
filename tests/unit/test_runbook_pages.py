"""The pages of ops/runbooks among themselves: each is in the index, each command is played, what they name is there."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from app.errors import ExitStatus
from app.metrics.families import families_of
from tests.runbook import FOLDER, commands, page_names
from tests.runbook_played import played, played_in

TOP = Path(__file__).resolve().parents[2]
INDEX = FOLDER / "README.md"
_LINK = re.compile(r"(?:ops/runbooks/|\]\()([\w.-]+\.md)(?:#([\w-]+))?")
_NAMED = re.compile(r"ops/runbooks/([\w.-]+\.md)(?:#([\w-]+))?")
_METRIC = re.compile(r"\bsurelane_[a-z_]+[a-z]\b")


def texts() -> dict[Path, str]:
    """Code and documents that may name a runbook."""
    files = [TOP / "README.md", TOP / "run", *(path for path in (TOP / "ops").rglob("*") if path.is_file())]
    for folder, kind in (("app", "*.py"), ("docs", "*.md"), ("migrations", "*.py"), ("tests", "*.md")):
        files += (TOP / folder).rglob(kind)
    return {path: path.read_text() for path in files if path.suffix in (".py", ".md", ".yaml", ".json", "")}


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_runbook_that_is_named_is_there() -> None:
    """With the section, if one is named."""
    missing: list[str] = []
    for path, text in texts().items():
        for name, section in (_LINK if path.parent == FOLDER else _NAMED).findall(text):
            page = FOLDER / name
            if not page.exists() or (section and section not in anchors(page)):
                missing.append(f"{path.relative_to(TOP)}: {name}#{section}")
    assert missing == []


@pytest.mark.parametrize("page", page_names())
def test_every_page_is_in_the_index(page: str) -> None:
    assert f"]({page}" in INDEX.read_text()


@pytest.mark.parametrize("status", list(ExitStatus))
def test_every_exit_status_is_in_the_index(status: ExitStatus) -> None:
    assert re.search(rf"^\| {status.value} \|", INDEX.read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", page_names())
def test_every_command_is_played(page: str) -> None:
    """A test plays all commands of a section, or none; here it is asked whether there is one for each section."""
    assert {command.section for command in commands(page)} <= played().get(page, set())


@pytest.mark.parametrize("page", page_names())
def test_a_page_begins_with_what_must_not_be_done(page: str) -> None:
    headings = re.findall(r"^## (.+)$", (FOLDER / page).read_text(), re.MULTILINE)
    assert headings[0] == "Do not"


@pytest.mark.parametrize("page", page_names())
def test_every_metric_that_a_page_names_is_served(page: str) -> None:
    registry = CollectorRegistry()
    families_of(registry)
    served = {f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()}
    assert set(_METRIC.findall((FOLDER / page).read_text())) <= served


def test_what_counts_as_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A section that is only listed, or of another page, does not."""
    monkeypatch.setattr("tests.runbook.FOLDER", tmp_path)
    for page in ("one.md", "two.md"):
        (tmp_path / page).write_text("## A\n\n    $ surelane status\n")
    test = tmp_path / "test_it.py"
    test.write_text(
        'PAGE, NO = "one.md", "Listed"\n'
        'SECTIONS = {"Listed": 1}\n'
        "def test_it(made):\n"
        '    play(PAGE, "A", made)\n'
        '    play("two.md", "B", made)\n'
        '    made.play("C", made.x("D"), name="E")\n'
        '    [c for c in commands(PAGE) if c.section == "F"]\n'
    )
    assert played_in(test) == {"one.md": {"A", "C", "F"}, "two.md": {"B", "C", "F"}}
