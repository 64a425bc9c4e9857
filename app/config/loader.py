"""Reads the settings: the file, overridden by the environment, then one validation that reports all faults."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import EnvSettingsSource
from yaml.composer import ComposerError

from app.config.settings import Settings
from app.errors import ConfigInvalid

DEFAULT_FILE = Path("surelane.yaml")
PREFIX = "SURELANE_"
#: similarity (0..1) from which on an unknown variable counts as a misspelt key
LIKENESS = 0.75

#: keys of earlier versions, and their replacement
_GONE = {
    "source.decode": "Spark's tasks read and decode the messages (`stage.tasks`)",
    "transform.where": "the function runs in the tasks that decode (`stage.tasks`)",
    "epoch.min_partitions": "`stage.tasks` says how many tasks read and decode",
}
_MISSING = {
    "lane": "add lane: orders",
    "source.bootstrap_servers": 'add bootstrap_servers: "broker1:9092"',
    "target.url": "add url: postgresql+psycopg2://user:password@host:5432/database",
}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault of the configuration."""

    #: dotted path of the key
    path: str
    problem: str
    hint: str | None

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" + (f"\n      {self.hint}" if self.hint else "")


def load(path: Path | None = None) -> Settings:
    """Settings from `path` (default `surelane.yaml`) and the environment; raises ConfigInvalid."""
    file = path or DEFAULT_FILE
    from_file, from_environment = _from_file(file), _Environment(Settings)()
    faults = _misspelt_variables()
    try:
        settings = Settings.of(_merged(from_file, from_environment, Settings))
    except ValidationError as error:
        faults += [_fault(details, from_environment) for details in error.errors(include_input=False)]
        raise _invalid(file, faults) from None
    if faults:
        raise _invalid(file, faults)
    return settings


def _invalid(file: Path, faults: list[Fault]) -> ConfigInvalid:
    count = "a fault" if len(faults) == 1 else f"{len(faults)} faults"
    lines = "".join(f"\n  {fault}" for fault in faults)
    return ConfigInvalid(f"the configuration ({file} and environment) has {count}:{lines}", hint="see docs/CONFIG.md")


def _from_file(file: Path) -> dict[str, Any]:
    try:
        raw = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except FileNotFoundError:
        hint = "copy ops/surelane.yaml to surelane.yaml and adapt it, or name a file with --config"
        raise ConfigInvalid(f"there is no configuration file {file}", hint=hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(f"cannot read {file}: {error}", hint="check the path and its permissions") from None
    except yaml.YAMLError as error:
        raise ConfigInvalid(f"{file} is not YAML: {_where(error)}", hint="check indentation and quotes there") from None
    if not isinstance(raw, dict):
        raise ConfigInvalid(f"{file} holds no keys", hint="see ops/surelane.yaml for an example")
    return {str(key): value for key, value in raw.items()}


def _where(error: yaml.YAMLError) -> str:
    """Line and problem, without the text of the line, which may contain a password."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None) or "cannot be parsed"
    if isinstance(error, ComposerError):
        problem = "a text that begins with * or & needs quotes"  # PyYAML's message repeats the text
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)


class _Environment(EnvSettingsSource):
    """`SURELANE_SOURCE__TOPICS` -> source.topics. A value that is not JSON stays text, which the key validates."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        try:
            return super().decode_complex_value(field_name, field, value)
        except ValueError:
            return value


def _merged(file: Mapping[str, Any], environment: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The file's keys, overridden by the environment's. Sections are merged key by key, values are replaced whole."""
    merged = dict(file) | dict(environment)
    for name, field in model.model_fields.items():
        if (section := _section(field)) is None:
            continue
        lower, upper = file.get(name), merged.get(name)
        if upper is None:
            merged[name] = {}
        elif isinstance(upper, Mapping):
            merged[name] = _merged(lower if isinstance(lower, Mapping) else {}, upper, section)
    return merged


def _section(field: FieldInfo | None) -> type[BaseModel] | None:
    annotation = field.annotation if field else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _fault(details: ErrorDetails, from_environment: Mapping[str, Any]) -> Fault:
    path = ".".join(map(str, details["loc"]))
    problem, hint = details["msg"], details.get("ctx", {}).get("hint")
    if details["type"] == "extra_forbidden" and path in _GONE:
        problem, hint = "this key is gone", f"take it out: {_GONE[path]}"
    elif details["type"] == "extra_forbidden":
        problem, hint = "unknown key", _nearest(details["loc"])
    elif details["type"] == "missing":
        problem, hint = "missing", _MISSING.get(path)
    if _holds(from_environment, details["loc"]):
        problem += f" (from {PREFIX}{'__'.join(map(str, details['loc'])).upper()})"
    return Fault(path=path, problem=problem, hint=hint)


def _nearest(loc: tuple[int | str, ...]) -> str:
    *parents, key = map(str, loc)
    model: type[BaseModel] | None = Settings
    for parent in parents:
        model = _section(model.model_fields.get(parent)) if model else None
    keys = [field.alias or name for name, field in model.model_fields.items()] if model else []
    near = difflib.get_close_matches(key, keys, n=1, cutoff=0.6)
    return f"did you mean {'.'.join([*parents, near[0]])}?" if near else f"known keys here: {', '.join(keys)}"


def _holds(nested: object, loc: tuple[int | str, ...]) -> bool:
    for key in loc:
        if not isinstance(nested, Mapping) or key not in nested:
            return False
        nested = nested[key]
    return True


def _misspelt_variables() -> list[Fault]:
    """Faults for variables that resemble a key; others (`SURELANE_CACHE`) are no keys of the configuration."""
    keys = {name.upper() for name in Settings.model_fields}
    names = (name.removeprefix(PREFIX) for name in sorted(os.environ) if name.upper().startswith(PREFIX))
    return [fault for name in names if (fault := _misspelt(name.upper(), keys))]


def _misspelt(name: str, keys: set[str]) -> Fault | None:
    head, nested, rest = name.partition("__")
    if head in keys:
        return None
    near = difflib.get_close_matches(head, sorted(keys), n=1, cutoff=LIKENESS)
    if not near and not nested:
        return None
    hint = f"did you mean {PREFIX}{near[0]}{nested}{rest}?" if near else f"known: {', '.join(sorted(keys))}"
    return Fault(path=f"{PREFIX}{name}", problem="this environment variable names no key", hint=hint)
