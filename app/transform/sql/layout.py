"""Compiles the SQL of a rule for rows of one layout, which determines the field of each column."""

from collections.abc import Callable, Mapping, Sequence

from app.model.copy_values import NULL, field_of, value_of
from app.model.row_layout import SEPARATOR, Layout, RowKind
from app.model.stand_ins import STAND_INS
from app.transform.sql.evaluating import Row, compiled
from app.transform.sql.rule import Node, Rule

#: layout and line
Made = tuple[str, str]
_Select = Callable[[list[str], Row], list[str]]


class RowChange:
    """The SQL for rows that were written."""

    def __init__(self, rule: Rule, layout: Layout) -> None:
        self.rule, self.layout = rule, layout
        places = {name: at for at, name in enumerate(layout.columns)}
        self._used = [places[name] for name in rule.columns if name in places]
        missing = [name for name in rule.columns if name not in places]
        self._unfit = _unfit(layout, missing) if missing else None
        self._where = None if rule.where is None else compiled(rule.where, places)
        names, self._select = _selecting(rule, layout, places)
        self._text = _text(layout, RowKind.UPSERT, *names)
        self._is_whole = rule.has_rest and not rule.outputs

    def made(self, line: str, *, is_read: bool) -> Made | None:
        """Layout and line; None: `where` leaves the row out."""
        if self._unfit is not None:
            return self._unfit
        fields = line[:-1].split("\t")
        values = _values(fields, self._used)
        if not is_read and (left_out := [at for at in self._used if values[at] in STAND_INS]):
            return _unfit(self.layout, [self.layout.columns[at] for at in left_out])
        try:
            if self._where is not None and not self._where(values):
                return None
            if self._is_whole:
                return self._text, line
            return self._text, "\t".join(self._select(fields, values)) + "\n"
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  # every error is about this row
            return _failed(self.layout, error)


class Delete:
    """The SQL for rows that were deleted: they have the key's columns only, the others are NULL."""

    def __init__(self, rule: Rule, layout: Layout) -> None:
        self._layout = layout
        places = {name: at for at, name in enumerate(layout.columns)}
        self._used = [places[name] for name in rule.columns if name in places]
        self._names, self._select = _selecting(rule, layout, places)

    def made(self, line: str) -> Made:
        """Layout and line, without columns that are NULL."""
        fields = line[:-1].split("\t")
        try:
            found = self._select(fields, _values(fields, self._used))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  # every error is about this row
            return _failed(self._layout, error)
        kept = {name: field for name, field in zip(self._names, found, strict=True) if field != NULL}
        if not kept:
            return _text(self._layout, RowKind.KEYLESS), ""
        return _text(self._layout, RowKind.DELETE, *kept), "\t".join(kept.values()) + "\n"


def _values(fields: list[str], used: Sequence[int]) -> Row:
    """The fields, with those that are used as values."""
    values: list[str | None] = [*fields]
    for at in used:
        if "\\" in fields[at]:
            values[at] = value_of(fields[at])
    return values


def _selecting(rule: Rule, layout: Layout, places: Mapping[str, int]) -> tuple[list[str], _Select]:
    """Names of the columns that `select` returns, and the function that returns their fields."""
    named = {output.name for output in rule.outputs}
    rest = [name for name in layout.columns if name not in named] if rule.has_rest else []
    copied = [places[name] for name in rest]
    computed = [_field(output.value, places) for output in rule.outputs]

    def select(fields: list[str], values: Row) -> list[str]:
        return [*[fields[at] for at in copied], *[field(fields, values) for field in computed]]

    return [*rest, *(output.name for output in rule.outputs)], select


def _field(node: Node, places: Mapping[str, int]) -> Callable[[list[str], Row], str]:
    if node.name == "AttributeReference":
        at = places.get(node.value)
        return (lambda fields, values: NULL) if at is None else (lambda fields, values: fields[at])
    evaluate = compiled(node, places)
    return lambda fields, values: field_of(evaluate(values))


def _text(layout: Layout, kind: RowKind, *names: str) -> str:
    return SEPARATOR.join([kind, layout.schema_hash, layout.schema, layout.table, *names])


def _unfit(layout: Layout, names: Sequence[str]) -> Made:
    return _text(layout, RowKind.UNFIT, *names), "\t".join(map(field_of, names)) + "\n"


def _failed(layout: Layout, error: Exception) -> Made:
    return _text(layout, RowKind.FAILED), f"{type(error).__name__}: {error}"
