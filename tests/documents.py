"""What verbs print: a text that is made from the JSON alone."""

import json
from collections.abc import Callable, Iterable

import pytest
from rich.console import RenderableType

from app.cli.rendering import Document, show


def check_text(
    document: Document,
    text: Callable[[Document], Iterable[RenderableType]],
    has: str,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """The text of the document is that of its JSON, and has these parts, separated by `|`. Returns all that was
    printed."""
    show(document, text, as_json=False)
    shown = capsys.readouterr().out
    show(document, text, as_json=True)
    printed = capsys.readouterr().out
    show(json.loads(printed), text, as_json=False)
    assert capsys.readouterr().out == shown
    assert [part for part in has.split("|") if part not in shown] == []
    return shown + printed
