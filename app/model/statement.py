"""One SQL statement of an epoch, and what it should do."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Statement:
    """SQL without parameters."""

    sql: str
    #: how many rows it should change; None: any number
    rows: int | None = None
    #: a query: fewer rows are right, too, where it finds none; "": they are not
    unless: str = ""
