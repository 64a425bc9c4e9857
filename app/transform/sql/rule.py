"""The SQL of one pattern as plain data, which goes to the tasks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Node:
    """An expression as Spark has analysed it."""

    #: name of Spark's class
    name: str
    #: of what it gives, as Spark writes types
    type: str
    children: tuple["Node", ...] = ()
    #: of a literal its value, of a column its name, of a cast or arithmetic its mode, of LIKE the escape character
    value: Any = None

    def walk(self) -> Iterator["Node"]:
        """It, and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Output:
    """A column that `select` gives."""

    name: str
    #: gives a text
    value: Node


@dataclass(frozen=True)
class Rule:
    """The SQL of one pattern."""

    schema: str
    table: str
    #: columns of the message that it names
    columns: tuple[str, ...]
    #: whether the rest of the row comes first: `*`
    has_rest: bool
    #: without two of one name
    outputs: tuple[Output, ...]
    where: Node | None = None
