"""What a workload is like: how many tables and columns, how long the rows, which of them are changed.

Each of them can be varied by itself. A shape without a name of its own is called by what it differs in.
"""

from dataclasses import dataclass
from functools import cache

from tools.bench import tables
from tools.bench.tables import Table


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A kind of changes; the default is one table of 6 columns, 792 bytes a message, any row as likely as any other."""

    #: alike, changes are spread evenly
    tables: int = 1
    #: of all types, a sixteenth of the values NULL; None: the six simple ones. Only for one table
    columns: int | None = None
    #: rows of many columns stay in one piece, see `tools.bench.tables.Table.is_whole`
    is_whole: bool = False
    #: of a simple row, about: its note is as long as it takes; None: notes of six words
    row_bytes: int | None = None
    #: rows by Zipf's law among few keys
    hot: bool = False
    #: rows that live at one time; then as many go as come. None: the table grows by three in ten changes
    most_rows: int | None = None
    #: told instead of the name that is made
    called: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError for what cannot be put together."""
        if self.tables < 1 or (self.columns is not None and self.columns < 2):
            raise ValueError("a workload needs a table, and a table a column beside its key")
        if self.columns is not None and (self.tables > 1 or self.row_bytes is not None):
            raise ValueError("columns are varied in one table, by rows as long as they make them")
        if self.is_whole and self.columns is None:
            raise ValueError("only rows whose columns are varied are told to stay whole")
        if self.row_bytes is not None and not tables.SIMPLE_BYTES < self.row_bytes < 1 << tables.TEXT_BITS:
            raise ValueError(f"a simple row has {tables.SIMPLE_BYTES} bytes without its note, and 2 MB at most")
        if self.most_rows is not None and self.most_rows < 2:
            raise ValueError("some rows have to live")

    @property
    def name(self) -> str:
        """In names of topics and in results."""
        parts = (
            ("tables", self.tables if self.tables > 1 else None),
            *(("columns", self.columns), ("bytes", self.row_bytes), ("rows", self.most_rows)),
        )
        told = [f"{what}-{number}" for what, number in parts if number is not None] + ["whole"] * self.is_whole
        return self.called or ".".join(told) or "uniform"

    @property
    def made(self) -> tuple[Table, ...]:
        """The tables; the same ones each time."""
        return _made(self.tables, self.columns, self.is_whole)


@cache
def _made(number: int, columns: int | None, is_whole: bool) -> tuple[Table, ...]:
    return tables.simple(number) if columns is None else (tables.wide(columns, is_whole=is_whole),)
