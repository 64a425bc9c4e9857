"""Runbooks as tests: the commands of a page, run as they stand, must print what the page says.

A page is Markdown in ops/runbooks. An indented line that begins with `$ ` is a command; the lines after it, up to the
next command or to lesser indentation, are what it prints. In both, `<name>` is a placeholder: what the caller gives for
it, or else any text. `...` is any text, too; alone on a line, any number of lines. Spaces count as one, and blank lines
do not count. A command without such lines may print anything.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.fix_cli import Ended

FOLDER = Path(__file__).resolve().parents[1] / "ops/runbooks"
_PROMPT = "$ "
#: `...` or a placeholder
_OPEN = re.compile(r"\.\.\.|<[a-z-]+>")


@dataclass(frozen=True, kw_only=True)
class Command:
    """One command of a page."""

    page: str
    #: of the command in the page, from 1
    line: int
    #: heading of the second level that it stands under
    section: str
    text: str
    #: lines that it prints; empty: whatever it prints
    prints: tuple[str, ...]

    def arguments(self, **values: str) -> list[str]:
        """The words of the command; every placeholder has to be given."""
        words = shlex.split(_OPEN.sub(lambda found: _given(found[0], values), self.text))
        assert not _OPEN.search(" ".join(words)), f"{self}: no value is given for it"
        return words

    def check(self, run: Callable[..., Ended], **values: str) -> Ended:
        """Run it by `run`, which takes its words, and compare."""
        ended = run(*self.arguments(**values))
        printed = f"{ended.out}{ended.err}"
        if self.prints:
            found = "".join(f"{_narrow(line)}\n" for line in printed.splitlines() if line.strip())
            assert re.fullmatch(pattern(self.prints, values), found), f"{self} prints something else:\n{printed}"
        return ended

    def __str__(self) -> str:
        return f"{self.page}:{self.line} {self.text}"


def commands(page: str) -> list[Command]:
    """The commands of ops/runbooks/<page>, in order."""
    return list(_commands(page, (FOLDER / page).read_text().splitlines()))


def pattern(lines: tuple[str, ...], values: Mapping[str, str]) -> str:
    """Regular expression of what these lines stand for, each with its line end."""
    texts = map(_narrow, lines)
    return "".join(r"(?:.*\n)*" if text == "..." else _line(text, values) + r"\n" for text in texts)


def _line(text: str, values: Mapping[str, str]) -> str:
    parts = re.split(f"({_OPEN.pattern})", text)
    return "".join(_any_or(part, values) if _OPEN.fullmatch(part) else re.escape(part) for part in parts)


def _any_or(part: str, values: Mapping[str, str]) -> str:
    given = _given(part, values)
    return ".+?" if given == part else re.escape(_narrow(given))


def _given(part: str, values: Mapping[str, str]) -> str:
    return values.get(part[1:-1].replace("-", "_"), part)


def _narrow(line: str) -> str:
    return " ".join(line.split())


def _commands(page: str, lines: list[str]) -> Iterator[Command]:
    section = ""
    for at, line in enumerate(lines):
        if line.startswith("## "):
            section = line.removeprefix("## ")
        text = line.lstrip()
        indent = len(line) - len(text)
        if indent >= 4 and text.startswith(_PROMPT):
            prints = tuple(_prints(lines[at + 1 :], indent))
            yield Command(
                page=page, line=at + 1, section=section, text=text.removeprefix(_PROMPT).strip(), prints=prints
            )


def _prints(lines: list[str], indent: int) -> Iterator[str]:
    for line in lines:
        text = line[indent:]
        if line[:indent].strip() or text.startswith(_PROMPT):
            return
        if text.strip():
            yield text
