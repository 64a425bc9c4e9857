"""The effective configuration as a document, and its text: no secret is in it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import RenderableType
from rich.text import Text

from app.cli.rendering import Document, grid, printable
from app.config.loader import DEFAULT_FILE
from app.config.settings import Settings
from app.logs import masked

#: maps of options for other programs, any of which may be a secret
_OPTIONS = ("options", "conf")
#: keys whose value may be a secret itself
_SECRET = ("key",)
HIDDEN = "(hidden)"


def config_document(settings: Settings, file: Path | None) -> Document:
    """`values`: key (dotted), value as text, and whether it is a default, by neither file nor environment given."""
    values = settings.model_dump(mode="json", by_alias=True, warnings=False)  # durations stay as ISO has them
    found = [
        {"key": key, "value": value, "default": not given} for key, value, given in _flat(values, settings, "", True)
    ]
    return {"lane": settings.lane, "file": str(file or DEFAULT_FILE), "values": found}


def config_text(document: Document) -> Iterator[RenderableType]:
    yield Text(printable(f"{document['file']}, and the environment; secrets are hidden"))
    rows = [(one["key"], one["value"], "default" if one["default"] else "") for one in document["values"]]
    yield grid(("key", "value", ""), rows)


def _flat(values: Mapping[str, Any], of: Any, above: str, given: bool) -> Iterator[tuple[str, str, bool]]:
    """Dotted keys, values, and whether each was given. `of`: the model, or the map of models, that was dumped."""
    for name, value in values.items():
        key, (part, is_given) = f"{above}{name}", _part(of, name, given=given)
        if name in _OPTIONS and isinstance(value, dict):
            yield from [(f"{key}.{option}", HIDDEN, is_given) for option in value] or [(key, "none", is_given)]
        elif isinstance(value, dict) and value:
            yield from _flat(value, part, f"{key}.", is_given)
        else:
            yield key, _shown(name, value), is_given


def _part(of: Any, name: str, *, given: bool) -> tuple[Any, bool]:
    """What the dumped `name` is of a model or a map, and whether it was given."""
    if isinstance(of, BaseModel):
        fields = type(of).model_fields
        field = next(one for one, info in fields.items() if name in (info.serialization_alias, info.alias, one))
        return getattr(of, field), given and field in of.model_fields_set
    if isinstance(of, Mapping):
        found: Mapping[Any, Any] = of
        return next((part for key, part in found.items() if str(key) == name), None), given
    return None, given


def _shown(name: str, value: Any) -> str:
    if value is None or value in ([], {}):
        return "none"
    if name in _SECRET and isinstance(value, str):
        return HIDDEN
    if isinstance(value, list):
        return masked(", ".join(map(str, value)))
    if isinstance(value, bool):
        return str(value).lower()
    return masked(str(value))
