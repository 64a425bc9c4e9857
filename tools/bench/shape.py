"""The dimensions of a workload: number of tables and columns, row length, which rows change.

Each can be varied alone. A shape without an explicit name is named by its differences from the default.
"""

from dataclasses import dataclass
from functools import cache

from tools.bench import tables
from tools.bench.tables import Table


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A workload's dimensions; the default is one table of 6 columns, 792 bytes a message, uniform choice of rows."""

    #: identical tables; changes are spread evenly
    tables: int = 1
    #: columns of all types, a sixteenth of the values NULL; None: the six simple columns. Only with one table
    columns: int | None = None
    #: rows of many columns are not toasted, see `tools.bench.tables.Table.is_whole`
    is_whole: bool = False
    #: approximate bytes of a simple row, by the length of its note; None: notes of six words
    row_bytes: int | None = None
    #: choose rows by Zipf's law among few keys
    hot: bool = False
    #: most rows of the table at a time; at this number an insert becomes a delete. None: the table grows by three rows
    #: in ten changes
    most_rows: int | None = None
    #: messages name their source transaction, of ten changes
    in_transactions: bool = False
    #: explicit name
    called: str = ""

    @property
    def name(self) -> str:
        """For names of topics and for results."""
        parts = (
            ("tables", self.tables if self.tables > 1 else None),
            *(("columns", self.columns), ("bytes", self.row_bytes), ("rows", self.most_rows)),
        )
        differences = [f"{what}-{number}" for what, number in parts if number is not None] + ["whole"] * self.is_whole
        differences += ["transactions"] * self.in_transactions
        return self.called or ".".join(differences) or "uniform"

    @property
    def made(self) -> tuple[Table, ...]:
        """The tables; cached, so equal shapes share them."""
        return _made(self.tables, self.columns, self.is_whole)


@cache
def _made(number: int, columns: int | None, is_whole: bool) -> tuple[Table, ...]:
    return tables.simple(number) if columns is None else (tables.wide(columns, is_whole=is_whole),)
