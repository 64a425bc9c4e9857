"""Which sections of which runbooks the tests play, read from their text: `play("Look", ...)`, `statuses(...)`,
`of("Look")`, or `command.section == "Look"`, in a file that names the page."""

import ast
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path

from tests.runbook import page_names

TESTS = Path(__file__).parent
#: functions whose arguments are a section, and maybe its page
_PLAYING = ("play", "statuses", "of")


@functools.cache
def played() -> dict[str, set[str]]:
    """Of all tests: page -> sections."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for page, sections in played_in(path).items():
            found.setdefault(page, set()).update(sections)
    return found


def played_in(path: Path) -> dict[str, set[str]]:
    """Of one file: page -> sections; a section without its page counts for every page that the file names."""
    tree, pages = ast.parse(path.read_text()), set(page_names())
    names = _constants(tree)
    named = {text for text in (*names.values(), *_texts(tree)) if text in pages}
    found: dict[str, set[str]] = {page: set() for page in named}
    for node in ast.walk(tree):
        arguments = [names.get(one.id, "") if isinstance(one, ast.Name) else _text(one) for one in _arguments(node)]
        for page in pages.intersection(arguments) or named:
            found[page].update(text for text in arguments if text and text not in pages)
    return {page: sections for page, sections in found.items() if sections}


def _arguments(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        return node.args if name in _PLAYING else []
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "section":
        return node.comparators
    return []


def _constants(tree: ast.Module) -> dict[str, str]:
    """Texts that the file gives a name at its top, or imports from others of the tests."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            found |= {name: text for name, text in _assigned(node) if text}
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
            module = importlib.import_module(node.module or "")
            values = {one.asname or one.name: getattr(module, one.name, None) for one in node.names}
            found |= {name: value for name, value in values.items() if isinstance(value, str)}
    return found


def _assigned(node: ast.Assign) -> Iterator[tuple[str, str]]:
    for target in node.targets:
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        yield from ((one.id, _text(value)) for one, value in pairs if isinstance(one, ast.Name))


def _texts(tree: ast.AST) -> Iterator[str]:
    return (_text(node) for node in ast.walk(tree) if isinstance(node, ast.Constant))


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
