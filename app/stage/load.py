"""The changes of one layout on their way into its staging table."""

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from sqlalchemy import Connection

from app.db.joined import later
from app.epoch import staging_copy
from app.epoch.epoch_batch import EpochBatch
from app.epoch.staging_copy import CopyLines
from app.model.arrow import compute
from app.stage.instants import Instants
from app.stage.request import Clearing, Table

#: bytes of lines up to which they are sent as values, in a statement: a COPY and its end take two round trips
INSERT_BYTES = 64 << 10
#: rows up to which that holds in a span with more bytes than that: each costs more than in a COPY
INSERT_ROWS = 500


@dataclass(frozen=True)
class Load:
    """The last change of each key, in the order of their keys."""

    #: index of the layout
    index: int
    table: Table
    lines: pa.Array
    #: of the values in a line, quoted
    columns: tuple[str, ...]

    @classmethod
    def of(cls, whole: EpochBatch, index: int, table: Table, instants: Instants | None = None) -> "Load":
        """`index`: of a layout in `whole`; `instants`: reads the times of lines, so that Postgres need not."""
        lines, columns = None, table.columns
        if instants is not None and table.instants:
            lines = instants.lines(whole.all_lines, whole.written[index], table.instants)
        if lines is None:
            lines = whole.last_lines[index]
        else:
            columns = (*columns, *(one.column for one in table.instants))
        if table.stamped and len(lines):
            lines = compute.binary_join_element_wise(whole.last_stamps[index], lines, "\t")
        return cls(index, table, lines, columns)

    @cached_property
    def size(self) -> int:
        """Bytes of the lines."""
        return CopyLines(self.lines).size

    @property
    def may_join(self) -> bool:
        """Whether the transaction that merges the rows may put them into their table: not with a TRUNCATE, which others
        who read the table would make wait, and whose lock would last until that transaction is decided."""
        return self.fits_statement and self.table.clearing is not Clearing.TRUNCATE

    @cached_property
    def fits_statement(self) -> bool:
        """Whether the lines are few enough for values, and have no character that would end the statement's text."""
        return self.size <= INSERT_BYTES and bool(self.columns) and not _has_nul(self.lines)

    def statements(self) -> tuple[str, ...]:
        """They remove the rows of earlier attempts, and insert these."""
        table = self.table
        return (*self._clearing(), staging_copy.insertion(table.name, self.columns, self.lines))

    def put(self, connection: Connection) -> int:
        """Insert few rows with the connection's next statement, or COPY. Returns the number of rows."""
        are_few = self.fits_statement and len(self.lines) <= INSERT_ROWS
        for statement in self.statements() if are_few else self._clearing():
            later(connection, statement)
        if are_few:
            return len(self.lines)
        return staging_copy.copy_lines(connection, self.table.name, self.columns, CopyLines(self.lines))

    def _clearing(self) -> tuple[str, ...]:
        match self.table.clearing:
            case Clearing.DELETE:
                return (staging_copy.deletion(self.table.name),)
            case Clearing.TRUNCATE:
                return (staging_copy.truncation([self.table.name]),)
            case _:
                return ()


def _has_nul(lines: pa.Array) -> bool:
    return bool(compute.any(compute.match_substring(lines, "\0")).as_py())
