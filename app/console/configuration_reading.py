"""The effective configuration as a page shows it: no secret is in it."""

from typing import Any

from app.cli.rendering import Document
from app.config.settings import Settings
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane
from app.logs import masked

#: maps of options for other programs, any of which may be a secret
_OPTIONS = ("options", "conf")
#: keys whose value may be a secret itself
_SECRET = ("key",)
HIDDEN = "(hidden)"


def configuration_of(settings: Settings) -> list[dict[str, Any]]:
    """Key (dotted), value as text, and whether it is the default."""
    values = settings.model_dump(mode="json", by_alias=True, warnings=False)  # durations stay as ISO has them
    return [
        {"key": key, "value": value, "default": key.partition(".")[0] not in _given(settings)}
        for key, value in _flat(values, "")
    ]


def _given(settings: Settings) -> set[str]:
    return settings.model_fields_set


def _flat(values: dict[str, Any], above: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, value in values.items():
        key = f"{above}{name}"
        if name in _OPTIONS and isinstance(value, dict):
            found += [(f"{key}.{option}", HIDDEN) for option in value] or [(key, "none")]
        elif isinstance(value, dict) and value:
            found += _flat(value, f"{key}.")
        else:
            found.append((key, _text(name, value)))
    return found


def _text(name: str, value: Any) -> str:
    if value is None or value in ([], {}):
        return "none"
    if name in _SECRET and isinstance(value, str):
        return HIDDEN
    if isinstance(value, list):
        return masked(", ".join(map(str, value)))
    if isinstance(value, bool):
        return str(value).lower()
    return masked(str(value))


def configuration(lane: ServedLane, _: Parameters) -> Document:
    """The effective configuration, secrets hidden."""
    return {"lane": lane.name, "file": str(lane.file or "surelane.yaml"), "values": configuration_of(lane.settings)}
