"""The SQL of one table pattern as plain data, which is sent to the tasks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Node:
    """An expression as Spark has analysed it."""

    #: name of Spark's class
    name: str
    #: type of its value, as Spark writes it
    type: str
    children: tuple["Node", ...] = ()
    #: a literal's value, a column's name, the mode of a cast or of arithmetic, LIKE's escape character
    value: Any = None

    def walk(self) -> Iterator["Node"]:
        """This node, and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Output:
    """A column that `select` returns."""

    name: str
    #: its type is string
    value: Node


@dataclass(frozen=True)
class Rule:
    """The SQL of one table pattern."""

    schema: str
    table: str
    #: columns of the message that the SQL names
    columns: tuple[str, ...]
    #: whether the rest of the row comes first: `*`
    has_rest: bool
    #: each name once
    outputs: tuple[Output, ...]
    where: Node | None = None
