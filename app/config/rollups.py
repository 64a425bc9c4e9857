"""Settings of rollups: the keys of `rollups` in `surelane.yaml`. Names equal those of the file."""

import datetime
import enum
import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationInfo
from pydantic import field_validator as validated

from app.config import values

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_CALL = re.compile(r"(?P<function>count|sum|avg|min|max)(?:\((?P<column>.+)\))?", re.DOTALL)
_Width = Annotated[datetime.timedelta, PlainValidator(values.duration), AfterValidator(values.longer_than_nothing)]


class AggregateFunction(enum.StrEnum):
    """What is computed of the rows of a group."""

    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"


class Aggregate(BaseModel):
    """One aggregate; written `count`, `count(column)`, `sum(column)`, ..."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    function: AggregateFunction
    #: None: of count, all rows
    column: str | None = None


class Bucket(BaseModel):
    """Buckets of event time."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    #: of type timestamp or timestamptz
    column: Annotated[str, AfterValidator(values.name)]
    width: _Width


def _aggregates(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {name: _aggregate(one) for name, one in value.items()}


def _aggregate(text: object) -> object:
    if not isinstance(text, str):
        return text
    found = _CALL.fullmatch(text.strip())
    if found is None or (found["column"] is None and found["function"] != AggregateFunction.COUNT):
        raise values.fault(f"{text!r} is no aggregate", "write count, count(column), sum(column), avg, min or max")
    return Aggregate(function=AggregateFunction(found["function"]), column=found["column"])


_Aggregates = dict[Annotated[str, AfterValidator(values.name)], Aggregate]


class RollupSettings(BaseModel):
    """One rollup: aggregates of a target table's rows, by columns and buckets of time."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)

    #: target schema.table whose rows are aggregated
    of: Annotated[str, AfterValidator(values.target_table)]
    #: target schema.table of the groups, which the lane makes
    table: Annotated[str, AfterValidator(values.target_table)]
    by: Annotated[tuple[Annotated[str, AfterValidator(values.name)], ...], BeforeValidator(values.names)] = ()
    #: None: groups of `by` alone
    bucket: Bucket | None = None
    #: column of the rollup -> what it has
    aggregates: Annotated[_Aggregates, BeforeValidator(_aggregates), Field(min_length=1)]

    @validated("aggregates")
    @classmethod
    def _columns_have_one_meaning(cls, made: dict[str, Aggregate], info: ValidationInfo) -> dict[str, Aggregate]:
        by, bucket = info.data.get("by", ()), info.data.get("bucket")
        if not by and bucket is None and "by" in info.data:
            raise values.fault("a rollup needs by, or bucket", "name the columns of its groups")
        taken = {*by, *(("bucket",) if bucket is not None else ())}
        if twice := sorted(taken & set(made)):
            raise values.fault(f"{', '.join(twice)} would be two columns", "call the aggregate otherwise")
        return made


def rollup_names(value: dict[str, RollupSettings]) -> dict[str, RollupSettings]:
    """Names, and tables that differ."""
    for name in value:
        if not _NAME.fullmatch(name):
            raise values.fault(f"{name!r} cannot name a rollup", f"it must match {_NAME.pattern}")
    tables = [one.table for one in value.values()]
    if len(set(tables)) < len(tables):
        raise values.fault("two rollups have the same table", "give each one of its own")
    return value
