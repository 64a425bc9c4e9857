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

    def __post_init__(self) -> None:
        """Raises ValueError for a combination that is not supported."""
        if self.tables < 1 or (self.columns is not None and self.columns < 2):
            raise ValueError("a workload needs a table, and a table a column beside its key")
        if self.columns is not None and (self.tables > 1 or self.row_bytes is not None):
            raise ValueError("columns are varied in one table, by rows as long as they make them")
        if self.is_whole and self.columns is None:
            raise ValueError("rows stay whole only where their columns are varied")
        if self.row_bytes is not None and not tables.SIMPLE_BYTES < self.row_bytes < 1 << tables.TEXT_BITS:
            raise ValueError(f"a simple row has {tables.SIMPLE_BYTES} bytes without its note, and 2 MB at most")
        if self.most_rows is not None and self.most_rows < 2:
            raise ValueError("some rows have to live")

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
