"""Configurations as nested mappings, before they are written to a file."""

from collections.abc import Mapping
from typing import Any


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` in place of `base`, section by section."""
    result = {**base, **over}
    for name, section in base.items():
        if isinstance(section, Mapping) and isinstance(new := over.get(name), Mapping):
            result[name] = {**section, **new}
    return result
