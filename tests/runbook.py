"""Runbooks as tests: the commands of a page, run as they stand, must print what the page says.

A page is Markdown in ops/runbooks. An indented line that begins with `$ ` is a command; the lines after it, up to the
next command or to lesser indentation, are what it prints. Commands are `surelane` and Postgres' own programs. In both,
`<name>` is a placeholder: what the caller gives for it, or else any text. `...` is any text, too; alone on a line, any
number of lines. Spaces count as one, and blank lines do not count. A command without such lines may print anything.
"""

import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from app.server_user import server_user
from tests.commands import Ended
from tools.devstack.postgres_binaries import bin_dir

FOLDER = Path(__file__).resolve().parents[1] / "ops/runbooks"
#: what a page may call beside `surelane`, by its name or by its path
POSTGRES_PROGRAMS = ("initdb", "pg_ctl", "pg_upgrade", "psql", "vacuumdb")
PROGRAM_SECONDS = 300.0
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


def page_names() -> list[str]:
    """All pages; README.md is their index."""
    return sorted(path.name for path in FOLDER.glob("*.md") if path.name != "README.md")


def commands(page: str) -> list[Command]:
    """The commands of ops/runbooks/<page>, in order."""
    return list(_commands(page, (FOLDER / page).read_text().splitlines()))


def of(page: str, section: str) -> list[Command]:
    """The commands of a section, of which there are some."""
    found = [command for command in commands(page) if command.section == section]
    assert found, f"{page} has no commands in {section}"
    return found


def play(page: str, section: str, run: Callable[..., Ended], **values: str) -> list[Ended]:
    """Every command of a section, in order: each prints what the page says. `run` takes the words of each."""
    return [command.check(run, **values) for command in of(page, section)]


def runner(surelane: Callable[..., Ended], folder: Path | None = None) -> Callable[..., Ended]:
    """What `play` takes: `surelane` by its caller, Postgres' programs for real, as the user that servers run as."""

    def run(program: str, *words: str) -> Ended:
        if program == "surelane":
            return surelane(*words)
        assert Path(program).name in POSTGRES_PROGRAMS, program
        return _run_program(program if "/" in program else str(bin_dir() / program), words, folder)

    return run


def _run_program(path: str, words: tuple[str, ...], folder: Path | None) -> Ended:
    """What it says goes to files: a server that it starts would keep a pipe open."""
    user = server_user()
    identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        files = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        done = subprocess.run(
            [path, *words], cwd=folder or "/", timeout=PROGRAM_SECONDS, check=False, **files, **identity
        )
        output = [file.read() for file in (out, err) if file.seek(0) == 0]
    return Ended(done.returncode, *output)


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
