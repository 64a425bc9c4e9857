"""docs/CONFIG.md's keys and docs/CLI.md's verbs, made of the code: `python -m ops.reference` writes them.

Of a key the code knows its name, variable, default and words; what it means is written by hand, in the last column of
its row, and stays. A default that the code computes (None there) is written by hand, too. A key without a meaning,
and one whose meaning lacks a word that the code takes, are faults. Of a verb the code knows everything.
"""

import enum
import json
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from app.cli.main import app as surelane
from app.config.loader import PREFIX
from app.config.settings import Settings
from tools.cli.main import app as tools

DOCS = Path(__file__).resolve().parents[1] / "docs"
#: characters of a line of prose
PROSE_WIDTH = 160
REQUIRED = "**required**"
#: in a path: the name of a table
TABLE = "<table>"
_ROW = re.compile(r"^\| `([^`]+)` \|[^|]*\| ([^|]*?) \| (.*) \|$", re.MULTILINE)
_PLAIN = re.compile(r"[\w./-]+")
_LENGTHS = (("hour", 3600), ("minute", 60), ("second", 1))


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key of surelane.yaml, as the code has it."""

    path: str
    #: as the page shows it; None: the code computes it
    default: str | None
    #: every word it takes, where those are counted
    words: tuple[str, ...]

    @property
    def variable(self) -> str | None:
        """Of the environment; None: a table's name is part of the key."""
        return None if TABLE in self.path else PREFIX + self.path.replace(".", "__").upper()


def keys(model: type[BaseModel] = Settings, above: str = "") -> Iterator[Key]:
    """All keys, in the order of the code: those of a section that may be left out, or is a table's, behind it."""
    for name, field in model.model_fields.items():
        path = above + (field.alias or name)
        section, of_table = _section(field)
        if section is None or field.annotation is not section:
            yield Key(path=path, default=_default(field, above), words=_words(field))
        if section is not None:
            yield from keys(section, f"{path}.{TABLE}." if of_table else f"{path}.")


def configuration(page: str) -> str:
    """What docs/CONFIG.md has to be, with the meanings that `page` has; raises ValueError with every fault."""
    written = {found[1]: (found[2], found[3]) for found in _ROW.finditer(page)}
    faults, rows = list[str](), list[str]()
    for key in keys():
        computed, meaning = written.get(key.path, ("", ""))
        if not meaning:
            faults.append(f"{key.path} has no row: add | `{key.path}` | | none | what it means |")
        lacking = [word for word in key.words if f"`{word}`" not in f"{computed} {meaning}"]
        faults += [f"{key.path} takes `{word}`, its row does not say so" for word in lacking]
        variable = f"`{key.variable}`" if key.variable else ""
        rows.append(f"| `{key.path}` | {variable} | {key.default or computed} | {meaning} |")
    if faults:
        raise ValueError("docs/CONFIG.md: " + "; ".join(faults))
    return _between(page, "keys", ["| key | environment | default | meaning |", "|---|---|---|---|", *rows])


def command_line(page: str) -> str:
    """What docs/CLI.md has to be."""
    commands = list(_commands())
    short = [f"| [`{name}`](#{_anchor(name)}) | {_first(command)} |" for name, command in commands]
    page = _between(page, "verbs", ["| verb | does |", "|---|---|", *short])
    return _between(page, "options", [line for name, command in commands for line in _described(name, command)])


DOCUMENTS: dict[Path, Callable[[str], str]] = {DOCS / "CONFIG.md": configuration, DOCS / "CLI.md": command_line}


def _section(field: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """The model that a key's own keys are of, and whether there is one for each table."""
    models = [kind for kind in _kinds(field.annotation) if issubclass(kind, BaseModel)]
    return (models[0] if models else None), get_origin(field.annotation) is dict


def _kinds(annotation: Any) -> Iterator[type]:
    """The classes that it is made of, however deep."""
    if get_origin(annotation) is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif inside := get_args(annotation):
        yield from (kind for one in inside for kind in _kinds(one))
    elif isinstance(annotation, type):
        yield annotation


def _words(field: FieldInfo) -> tuple[str, ...]:
    return tuple(
        str(member.value)
        for kind in _kinds(field.annotation)
        if issubclass(kind, enum.Enum)
        for member in kind
        if field.is_required() or _shown(member) != _shown(field.default)
    )


def _default(field: FieldInfo, above: str) -> str | None:
    if field.is_required():
        whole = above in ("", "source.", "target.")
        return REQUIRED if whole else f"{REQUIRED} in `{above.removesuffix('.')}`"
    shown = _shown(field.get_default(call_default_factory=True))
    return f"`{shown}`" if shown else None


def _shown(value: object) -> str | None:
    """As it is written in the file; None for what is no value."""
    match value:
        case None | "":
            return None
        case enum.Enum():
            return str(value.value)
        case timedelta():
            return json.dumps(_length(value))
        case str():
            return value if _PLAIN.fullmatch(value) else json.dumps(value)
        case BaseModel():
            return _shown(value.model_dump())
        case float() if value.is_integer():
            return str(int(value))
        case dict():
            return "{" + ", ".join(f"{_shown(key)}: {_shown(one)}" for key, one in value.items()) + "}"
        case tuple():
            return json.dumps(value)
        case _:
            return json.dumps(value)


def _length(value: timedelta) -> str:
    seconds = value.total_seconds()
    name, unit = next((name, unit) for name, unit in _LENGTHS if seconds % unit == 0)
    return f"{seconds / unit:.0f} {name}{'' if seconds == unit else 's'}"


def _commands() -> Iterator[tuple[str, Any]]:
    """Each command that can be typed, with its words, in the order of the verbs."""
    for program in (surelane, tools):
        group: Any = typer.main.get_command(program)
        for verb in group.verbs:
            command = group.get_command(None, verb)
            commands = getattr(command, "commands", None)
            if commands is None or command.invoke_without_command:
                yield f"{group.name} {verb}", command
            for name, under in (commands or {}).items():
                yield f"{group.name} {verb} {name}", under


def _anchor(heading: str) -> str:
    """Of a heading, as Markdown's readers make it."""
    return re.sub(r"[^\w -]", "", heading).replace(" ", "-")


def _described(name: str, command: Any) -> list[str]:
    context = command.context_class(command, info_name=name)
    records = [param.get_help_record(context) for param in command.params if param.name != "help"]
    rows = [f"| `{_cell(record[0])}` | {_cell(record[1])} |" for record in records if record]
    table = ["", "| option | |", "|---|---|", *rows] if rows else []
    examples = [f"    {line.strip()}" for line in command.epilog.split("\n\n")[1:]]
    return ["", f"### `{name}`", "", *_paragraphs(command), *table, "", *examples]


def _paragraphs(command: Any) -> list[str]:
    """Its help, with blank lines between paragraphs."""
    parts = [textwrap.fill(" ".join(part.split()), PROSE_WIDTH) for part in (command.help or "").split("\n\n")]
    return "\n\n".join(parts).split("\n")


def _first(command: Any) -> str:
    return _cell((command.help or "").split("\n\n")[0])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _between(page: str, mark: str, lines: list[str]) -> str:
    """The page with `lines` between its marks."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    above, below = page.index(begin) + len(begin), page.index(end)
    return f"{page[:above]}\n\n" + "\n".join(lines).strip() + f"\n\n{page[below:]}"


if __name__ == "__main__":
    for document, made in DOCUMENTS.items():
        document.write_text(made(document.read_text()))
