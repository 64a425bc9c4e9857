"""The rules of docs/DEVELOPMENT.md that no linter knows: names, state of the process, words."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops import structure

TOP = Path(__file__).resolve().parents[2]
CODE = sorted(path for room in ("app", "tools") for path in (TOP / room).rglob("*.py"))
#: state that outlives a run of a lane: module and name; docs/DEVELOPMENT.md says why each is there
STATE = {
    ("app/credentials/passwords.py", "_kept"),
    ("app/credentials/passwords.py", "_asking"),
    ("app/decode/scan_loader.py", "loading"),
    ("app/failpoint.py", "_reached"),
    ("app/kafka/block_consumer.py", "_library"),
    ("app/kafka/gather.py", "loaded"),
    ("app/metrics/families.py", "_by_registry"),
    ("app/metrics/families.py", "_lock"),
    ("app/query/staged_results.py", "_engines"),
    ("app/stage/instants.py", "loaded"),
    ("app/stage/serving.py", "_daemon"),
}
#: files and classes that share a name by convention: a verb of the command line and what it calls
VERBS = {path.name for path in (TOP / "app/cli").glob("*.py")}
#: words with no meaning of their own in the field, see docs/DEVELOPMENT.md
BANNED = re.compile(
    r"\b(told|somebody|whoever|nobody|mourns?|acquits?|laid down|held against|looked at|stands there|what stands)\b",
    re.IGNORECASE,
)
#: the same in a sentence that a user reads
BANNED_IN_STRINGS = re.compile(rf"{BANNED.pattern}|\b(tells|said|accuse[sd]?|pardons?)\b", re.IGNORECASE)
TESTS = sorted((TOP / "tests").rglob("*.py"))
PAGES = sorted([*(path for room in ("docs", "ops", "tests") for path in (TOP / room).rglob("*.md")), *TOP.glob("*.md")])


def name_of(path: Path) -> str:
    """As it is written in STATE."""
    return path.relative_to(TOP).as_posix()


def test_each_file_of_the_service_has_a_name_of_its_own() -> None:
    found = defaultdict[str, list[str]](list)
    for path in CODE:
        if path.is_relative_to(TOP / "app") and path.name not in {"__init__.py", "__main__.py"}:
            found[path.name].append(name_of(path))
    assert {name: paths for name, paths in found.items() if len(paths) > 1 and name not in VERBS} == {}


def test_each_class_of_the_service_has_a_name_of_its_own() -> None:
    found = defaultdict[str, list[str]](list)
    for path in CODE:
        if path.is_relative_to(TOP / "app"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(name_of(path))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_the_picture_of_the_packages_is_up_to_date() -> None:
    assert structure.PICTURE.read_text() == structure.picture(structure.imports()), "python -m ops.structure"


def test_the_state_of_the_process_is_on_the_list() -> None:
    found = {(name_of(path), name) for path in CODE if path.is_relative_to(TOP / "app") for name in _state(path)}
    assert found == STATE
    page = (TOP / "docs/DEVELOPMENT.md").read_text()
    assert [name for _, name in STATE if f"`{name}`" not in page] == []


def _state(path: Path) -> Iterator[str]:
    """Names of a module that something can be kept in: what is no constant, type, function, logger or command line."""
    tree = ast.parse(path.read_text())
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if isinstance(value, _MADE):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if isinstance(value, _MADE):
                pass
            case ast.FunctionDef(name=name, decorator_list=decorators):
                if any(ast.unparse(one).startswith(("cache", "lru_cache", "functools.")) for one in decorators):
                    yield name
                continue
            case _:
                continue
        made = ast.unparse(value)
        if not (name.isupper() or name.startswith("__") or made.startswith(_NO_STATE)):
            yield name
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            yield from node.names


_MADE = (ast.Call, ast.Dict, ast.List, ast.Set)
_NO_STATE = ("structlog.get_logger(", "typer.Typer(", "TypeVar(", "_comparison(", "numba.njit(")


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_code_has_no_banned_word(path: Path) -> None:
    """In names, comments and docstrings."""
    assert _banned_words(path) == []


@pytest.mark.parametrize("path", TESTS, ids=name_of)
def test_tests_have_no_banned_word(path: Path) -> None:
    """As in the code. Their strings are data."""
    assert _banned_words(path) == []


@pytest.mark.parametrize("path", CODE, ids=name_of)
def test_strings_have_no_banned_word(path: Path) -> None:
    """In sentences: a string without a space is a key or a name."""
    found = [(number, text) for number, text in _strings(path) if " " in text and BANNED_IN_STRINGS.search(text)]
    assert found == []


def _banned_words(path: Path) -> list[tuple[int, str]]:
    return [(number, word) for number, word in _words(path.read_text()) if BANNED.search(word.replace("_", " "))]


def _words(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NAME, tokenize.COMMENT):
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text_of := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), text_of


def _strings(path: Path) -> Iterator[tuple[int, str]]:
    """Literals and the literal parts of f-strings; docstrings too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_pages_have_no_banned_word(path: Path) -> None:
    """In prose: tables and code are made of the code, or say what it does."""
    lines = path.read_text().splitlines()
    prose = [line for line in lines if not _is_table_or_code(line) and not line.startswith(("- `", "<!--"))]
    assert [line for line in prose if BANNED.search(re.sub(r"`[^`]*`", "", line))] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_lines_of_prose_end_at_160(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert [line for line in lines if len(line) > 160 and not _is_table_or_code(line)] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_tables_have_a_line_for_each_row(path: Path) -> None:
    """As a program that wraps lines does not leave them."""
    assert [line for line in path.read_text().splitlines() if "|---|" in line and not _is_table_or_code(line)] == []


def _is_table_or_code(line: str) -> bool:
    return line.startswith("    ") or line.lstrip().startswith("|")
