"""A store of a query's state: part of an operator of its plan, with the types of its keys and values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

#: as Spark writes the type of a window, with a time zone or without
_WINDOW = "struct<start:timestamp"


@dataclass(frozen=True, kw_only=True, order=True)
class StateStore:
    #: number of the operator in the plan
    operator: int
    #: as Spark calls it: stateStoreSave, symmetricHashJoin, transformWithStateExec, dedupe ...
    name: str
    #: store of the operator, side of a join, or state variable
    store: str
    #: column -> type, in order, as Spark writes types
    key: tuple[tuple[str, str], ...]
    value: tuple[tuple[str, str], ...]

    @property
    def window(self) -> str | None:
        """The column of the key that is a window of time; None: there is none."""
        return next((name for name, kind in self.key if kind.startswith(_WINDOW)), None)

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "key": list(map(list, self.key)), "value": list(map(list, self.value))}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """From `as_json`. Raises KeyError, TypeError or ValueError for another content."""
        return cls(
            operator=plain["operator"],
            name=plain["name"],
            store=plain["store"],
            key=tuple((name, kind) for name, kind in plain["key"]),
            value=tuple((name, kind) for name, kind in plain["value"]),
        )
