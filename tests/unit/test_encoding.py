"""What a column's text means: every wire form of a value becomes that value in Postgres, with envelope and without."""

import datetime
import json
import struct
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.apply.conversion import staged_type, value_sql
from app.apply.encoding import TEXT, Encoding, EncodingUnknown, Wire, encoding_of, from_schema, from_target
from app.apply.target_tables import Column, load_table
from app.config.modes import Modes
from tests import messages as m
from tests.fix_target import SCHEMA, Target
from tests.messages import Table, Type, bits_of, unscaled

#: few examples, but of many values
batch = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


def many(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Lists that make the round trip worth while."""
    return st.lists(values, min_size=20, max_size=100)


#: Debezium's microseconds are a Java long, so its years end at 294247; Python's at 9999
moments = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999999))
milliseconds = moments.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))
times = st.times()
spans = st.timedeltas(datetime.timedelta(days=-100_000), datetime.timedelta(days=100_000))
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**30), max_value=10**30)

integers = st.integers(-(2**200), 2**200) | st.integers(-(2**64), 2**64)


def column_of(target: Target, kind: Type) -> Column:
    """A column of that type, as the catalog describes it."""
    target.execute("drop table if exists one")
    target.create(Table("one", {"id": m.INT, "v": kind}))
    with target.engine.connect() as connection:
        table = load_table(connection, "public", "one")
    assert table is not None
    return table.by_name["v"]


def merged(
    target: Target, kind: Type, wire: Sequence[Any], *, schema: bool, modes: Mapping[str, str] = {}, shown: str = "v"
) -> list[Any]:
    """The values that the merge makes of these JSON values; `shown`: an expression over column v."""
    column = column_of(target, kind)
    encoding = encoding_of(column, kind.schema if schema else None, Modes.model_validate(modes))
    expression = value_sql(column, encoding, "s.c", f'"{SCHEMA}"')
    kind_staged = staged_type(column, encoding)
    staged = f"select ordinality n, c::{kind_staged} c from unnest(cast(:wire as text[])) with ordinality u(c)"
    texts = [None if value is None else value if isinstance(value, str) else json.dumps(value) for value in wire]
    with target.engine.begin() as connection:
        connection.exec_driver_sql(f"create temp table kept (n int, v {kind.sql}) on commit drop")
        connection.execute(text(f"insert into kept select n, {expression} from ({staged}) s"), {"wire": texts})
        found = connection.exec_driver_sql(f"select {shown} from kept order by n").scalars().all()
    return [bytes(value) if isinstance(value, memoryview) else value for value in found]


def check(target: Target, kind: Type, values: Sequence[Any]) -> None:
    """Both ways to write the values give them back, and null stays null."""
    values = [*values, None]
    for envelope in (False, True):
        wire = [kind.wire(value, envelope) for value in values]
        assert merged(target, kind, wire, schema=envelope) == values, f"envelope {envelope}"


@batch
@given(values=many(moments))
def test_timestamps(values: list[datetime.datetime], target: Target) -> None:
    check(target, m.TIMESTAMP, values)


@batch
@given(values=many(milliseconds))
def test_timestamps_in_milliseconds(values: list[datetime.datetime], target: Target) -> None:
    check(target, m.TIMESTAMP_MS, values)


@batch
@given(values=many(moments.map(lambda moment: moment.replace(tzinfo=datetime.UTC))))
def test_timestamps_with_time_zone(values: list[datetime.datetime], target: Target) -> None:
    check(target, m.TIMESTAMPTZ, values)


@batch
@given(values=many(moments.map(datetime.datetime.date)))
def test_dates(values: list[datetime.date], target: Target) -> None:
    check(target, m.DATE, values)


@batch
@given(values=many(times))
def test_times(values: list[datetime.time], target: Target) -> None:
    check(target, m.TIME, values)


@batch
@given(values=many(spans))
def test_intervals(values: list[datetime.timedelta], target: Target) -> None:
    check(target, m.INTERVAL, values)


@batch
@given(values=many(decimals))
def test_decimals(values: list[Decimal], target: Target) -> None:
    check(target, m.numeric(40, 4), values)


@batch
@given(values=many(st.binary(max_size=30)))
def test_bytes(values: list[bytes], target: Target) -> None:
    check(target, m.BYTEA, values)


@batch
@given(values=many(st.text("01", min_size=11, max_size=11)))
def test_bit_strings(values: list[str], target: Target) -> None:
    check(target, m.bits(11), values)


@batch
@given(values=many(st.lists(st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0")))))
def test_arrays(values: list[list[str | None]], target: Target) -> None:
    check(target, m.TEXTS, values)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (m.SMALLINT, [0, -32768, 32767]),
        (m.BIGINT, [0, 2**63 - 1, -(2**63)]),
        (m.BOOL, [True, False]),
        (m.BIT, ["1", "0"]),
        (m.bits(8), ["10000000", "00000001"]),
        (m.bits(64), ["1" * 64, "1" + "0" * 63, "0" * 63 + "1"]),
        (m.DOUBLE, [0.1, -0.0, 1e308, 5e-324]),
        (m.REAL, [0.5, -1.25]),
        (m.UUID, [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]),
        (m.JSONB, [{"a": [1, None, "x\\y\t"]}, [], "text", 5]),
        (m.INTS, [[1, None, -5], []]),
        (m.TIME_MS, [datetime.time(23, 59, 59, 999000), datetime.time(0)]),
        (m.POINT, ["(1.5,-2)"]),
        (m.NUMERIC, [Decimal("1.50"), Decimal(10) ** 60, Decimal("-0.000001"), Decimal(0)]),
        (m.numeric(38, 0), [Decimal(10) ** 37, Decimal(-1)]),
        (m.numeric(6, 2), [Decimal("9999.99"), Decimal("-0.01")]),
    ],
    ids=lambda value: value.sql if isinstance(value, Type) else "",
)
def test_values_of_other_types(kind: Type, values: list[Any], target: Target) -> None:
    check(target, kind, values)


TIMESTAMPS = {
    "io.debezium.time.Timestamp": -1,
    "io.debezium.time.MicroTimestamp": -1000,
    "io.debezium.time.NanoTimestamp": -1_000_000,
    "org.apache.kafka.connect.data.Timestamp": -1,
}


@pytest.mark.parametrize("name", TIMESTAMPS)
def test_every_unit_of_a_timestamp_also_before_1970(name: str, target: Target) -> None:
    kind = Type(sql="timestamp", schema={"type": "int64", "name": name})
    (found,) = merged(target, kind, [TIMESTAMPS[name]], schema=True)
    assert found == datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)


@pytest.mark.parametrize(
    ("name", "kind", "wire", "expected"),
    [
        ("io.debezium.time.Time", "time", 86_399_999, datetime.time(23, 59, 59, 999000)),
        ("io.debezium.time.NanoTime", "time", 86_399_999_999_000, datetime.time(23, 59, 59, 999999)),
        ("org.apache.kafka.connect.data.Time", "time", 1, datetime.time(0, 0, 0, 1000)),
        ("org.apache.kafka.connect.data.Date", "date", -1, datetime.date(1969, 12, 31)),
        ("io.debezium.time.MicroTime", "text", 86_400_000_000, "24:00:00"),
        (None, "date", "2024-02-29", datetime.date(2024, 2, 29)),
        (None, "timestamp", "2024-02-29T23:59:59.999999", datetime.datetime(2024, 2, 29, 23, 59, 59, 999999)),
        (None, "time", "23:59:59.5", datetime.time(23, 59, 59, 500000)),
        (None, "interval", "P1DT2H", datetime.timedelta(days=1, hours=2)),
    ],
)
def test_other_modes_of_the_connector(name: str | None, kind: str, wire: Any, expected: Any, target: Target) -> None:
    """Connect's own types, and ISO text (`time.precision.mode=isostring`), which no schema is needed for."""
    made = Type(sql=kind, schema={"type": "string", "name": name} if name else {"type": "string"})
    assert merged(target, made, [wire], schema=name is not None) == [expected]


def test_iso_text_with_a_schema_that_calls_it_a_string_is_read_by_postgres(target: Target) -> None:
    for kind, wire in ((m.DATE, "2024-02-29"), (m.TIMESTAMP, "2024-02-29T01:02:03"), (m.INTERVAL, "P1Y2M")):
        described = Type(sql=kind.sql, schema={"type": "string", "name": "io.debezium.time.Iso"})
        assert merged(target, described, [wire], schema=True)[0] is not None


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"type": "string"}, TEXT),
        ({"type": "int64"}, TEXT),
        ({"type": "string", "name": "io.debezium.data.Enum", "parameters": {"allowed": "a,b"}}, TEXT),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, Encoding(Wire.ISO)),
        ({"type": "string", "name": "io.debezium.time.IsoDate"}, Encoding(Wire.ISO)),
        ({"type": "string", "name": "io.debezium.time.IsoTime"}, TEXT),
        ({"type": "bytes"}, Encoding(Wire.BASE64)),
        ({"type": "array", "items": {"type": "string"}}, Encoding(Wire.JSON_ARRAY, item=TEXT)),
        ({"type": "array", "items": m.DATE.schema}, Encoding(Wire.JSON_ARRAY, item=Encoding(Wire.DAYS))),
        (m.numeric(9, 3).schema, Encoding(Wire.DECIMAL, 3)),
        (m.NUMERIC.schema, Encoding(Wire.VARIABLE_DECIMAL)),
        (m.TIMESTAMP_MS.schema, Encoding(Wire.MILLIS)),
    ],
)
def test_the_schema_says_how_a_value_is_written(field: dict[str, Any], expected: Encoding) -> None:
    assert from_schema(field) == expected


@pytest.mark.parametrize(
    ("sql", "wire"),
    [
        ("text", Wire.TEXT),
        ("timestamp", Wire.MICROS),
        ("timestamp(6)", Wire.MICROS),
        ("timestamp(4)", Wire.MICROS),
        ("timestamp(3)", Wire.MILLIS),
        ("timestamp(0)", Wire.MILLIS),
        ("timestamptz", Wire.ISO),
        ("timestamptz(3)", Wire.ISO),
        ("time(3)", Wire.TIME_MILLIS),
        ("time(4)", Wire.TIME_MICROS),
        ("timetz", Wire.TEXT),
        ("date", Wire.DAYS),
        ("date[]", Wire.JSON_ARRAY),
        ("bit varying(9)", Wire.BITS),
        ("numeric(9,2)", Wire.TEXT),
        ("numeric", Wire.NUMERIC),
    ],
)
def test_without_a_schema_the_targets_type_says_it(sql: str, wire: Wire, target: Target) -> None:
    assert from_target(column_of(target, Type(sql=sql, schema={}))).wire is wire


def test_a_domain_is_what_it_is_made_of(target: Target) -> None:
    target.execute("create domain birthday as date check (value > '1900-01-01')")
    kind = Type(sql="birthday", schema=m.DATE.schema)
    for schema in (False, True):
        assert merged(target, kind, [19000], schema=schema) == [datetime.date(2022, 1, 8)]


@batch
@given(values=many(st.tuples(integers, st.integers(0, 30))))
def test_decimal_of(values: list[tuple[int, int]], target: Target) -> None:
    """Every number of bytes, around every border of a sign bit."""
    wire = [unscaled(Decimal(number), 0) for number, _ in values]
    found = target.execute(
        f"select {SCHEMA}.decimal_of(b, s) from unnest(cast(:wire as bytea[]), cast(:scales as int[]))"
        " with ordinality u(b, s, n) order by n",
        wire=wire,
        scales=[scale for _, scale in values],
    )
    assert [value for (value,) in found] == [Decimal(f"{number}E-{scale}") for number, scale in values]


def test_decimal_of_with_more_bytes_than_needed(target: Target) -> None:
    """Other producers pad."""
    for number in (0, 1, -1, 127, -128, 128, 2**55, -(2**55) - 1, 2**63, -(2**63)):
        for size in range(9, 12):
            wire = number.to_bytes(size, "big", signed=True)
            ((found,),) = target.execute(f"select {SCHEMA}.decimal_of(:wire, 2)", wire=wire)
            assert found == Decimal(f"{number}E-2")


@batch
@given(values=many(st.text("01", min_size=1, max_size=70)))
def test_bits_of(values: list[str], target: Target) -> None:
    wire = [m.base64_of(bits_of(value)) for value in values]
    found = target.execute(
        f"select {SCHEMA}.bits_of(w, l) from unnest(cast(:wire as text[]), cast(:lengths as int[]))"
        " with ordinality u(w, l, n) order by n",
        wire=wire,
        lengths=[len(value) for value in values],
    )
    assert [value for (value,) in found] == values


def test_functions_of_null_are_null(target: Target) -> None:
    assert target.execute(f"select {SCHEMA}.decimal_of(null, 2), {SCHEMA}.bits_of(null, 2)") == [(None, None)]
    assert target.execute(f"select {SCHEMA}.bits_of('true', 1), {SCHEMA}.bits_of('false', 1)") == [("1", "0")]


def shown(
    target: Target, sql: str, *wire: Any, schema: dict[str, Any] | None = None, modes: Mapping[str, str] = {}
) -> list[Any]:
    """What the merge makes of JSON values, as Postgres writes it."""
    kind = Type(sql=sql, schema=schema or {})
    return merged(target, kind, wire, schema=schema is not None, modes=modes, shown="v::text")


@pytest.mark.parametrize(
    ("modes", "sql", "wire", "expected"),
    [
        ({"decimal": "precise"}, "numeric(9,2)", "AMg=", "2.00"),
        ({"decimal": "precise"}, "numeric(5,-2)", "AQ==", "100"),
        ({"decimal": "precise"}, "numeric", {"scale": 1, "value": "Dw=="}, "1.5"),
        ({"decimal": "precise"}, "money", "DwE=", "$38.41"),
        ({"decimal": "double"}, "numeric", 1e20, "100000000000000000000"),
        ({"decimal": "double"}, "money", 1e10, "$10,000,000,000.00"),
        ({"decimal": "precise"}, "numeric(9,2)[]", ["AMg=", None], "{2.00,NULL}"),
        ({"time_precision": "microseconds"}, "timestamp(3)", 1000, "1970-01-01 00:00:00.001"),
        ({"time_precision": "nanoseconds"}, "timestamp", 1000, "1970-01-01 00:00:00.000001"),
        ({"time_precision": "connect"}, "timestamp", 1, "1970-01-01 00:00:00.001"),
        ({"time_precision": "connect"}, "time", 1, "00:00:00.001"),
        ({"time_precision": "adaptive_time_microseconds"}, "time(3)", 1000, "00:00:00.001"),
        ({"time_precision": "nanoseconds"}, "time", 86_400_000_000_000, "24:00:00"),
        ({"time_precision": "isostring"}, "date", "-0043-03-15Z", "0044-03-15 BC"),
        ({"time_precision": "isostring"}, "timestamp", "+12345-03-15T01:02:03Z", "12345-03-15 01:02:03"),
        ({"time_precision": "isostring"}, "time", "01:02:03.5Z", "01:02:03.5"),
        ({"time_precision": "structured"}, "date", {"year": 2024, "month": 2, "day": 29}, "2024-02-29"),
        ({"time_precision": "structured"}, "timestamp", {"specialValue": "NEGATIVE_INFINITY"}, "-infinity"),
        ({"binary": "hex"}, "bytea", "00ff", "\\x00ff"),
        ({"binary": "base64-url-safe"}, "bytea", "-_8=", "\\xfbff"),
        ({"binary": "base64-url-safe"}, "bytea[]", ["-_8="], '{"\\\\xfbff"}'),
        ({"binary": "hex"}, "tsquery", "276127", "'a'"),
        ({"interval": "string"}, "interval", "P1Y2M3DT4H5M6.7S", "1 year 2 mons 3 days 04:05:06.7"),
    ],
)
def test_without_a_schema_the_modes_say_it(
    modes: dict[str, str], sql: str, wire: Any, expected: str, target: Target
) -> None:
    assert shown(target, sql, wire, None, modes=modes) == [expected, None]


def test_a_schema_that_says_string_leaves_the_text_of_bytes_to_the_modes(target: Target) -> None:
    string = {"type": "string"}
    assert shown(target, "bytea", "00ff", schema=string, modes={"binary": "hex"}) == ["\\x00ff"]
    with pytest.raises(EncodingUnknown):
        shown(target, "bytea", "00ff", schema=string)
    assert shown(target, "tsquery", "J2En", schema={"type": "bytes"}) == ["'a'"]
    assert shown(target, "tsquery", "J2En") == ["'a'"]


def test_infinities_as_debezium_writes_them(target: Target) -> None:
    ends = ["infinity", "-infinity"]
    assert shown(target, "timestamp", 2**63 - 1, -(2**63)) == ends
    assert shown(target, "timestamp(3)", 9223372036825200000, -9223372036832400000) == ends
    assert shown(target, "timestamptz", *ends) == ends
    assert shown(target, "date", 2146033979, -2147472691, -622191234, -625821272) == ends * 2
    iso = {"time_precision": "isostring"}
    assert shown(target, "date", "+5877611-06-21Z", "-5877611-06-22Z", modes=iso) == ends
    assert shown(target, "timestamp", "+292278994-08-16T23:00:00Z", "-292275055-05-16T23:00:00Z", modes=iso) == ends
    assert shown(target, "numeric", "POSITIVE_INFINITY", "NEGATIVE_INFINITY", "NAN") == ["Infinity", "-Infinity", "NaN"]


def test_years_that_need_a_sign(target: Target) -> None:
    wire = ["-4712-01-01T00:00:00Z", "0000-12-31T00:00:00Z", "+294276-12-31T23:59:59.999999Z"]
    found = shown(target, "timestamptz", *wire)
    assert found == ["4713-01-01 00:00:00+00 BC", "0001-12-31 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00"]


def test_bit_strings_come_without_their_leading_zeros(target: Target) -> None:
    assert shown(target, "bit(10)", "", "AQ==", "AQI=") == ["0000000000", "0000000001", "1000000001"]
    assert shown(target, "varbit(10)", "", "AQ==", "AQI=") == ["", "1", "1000000001"]


def test_shapes(target: Target) -> None:
    def wkb(kind: int, *points: tuple[float, float]) -> str:
        head = struct.pack("<BI", 1, kind) + (struct.pack("<I", 1) if kind == 3 else b"")
        return m.base64_of(head + struct.pack("<I", len(points)) + b"".join(struct.pack("<dd", *at) for at in points))

    ring = wkb(3, (0.1, -0.0), (0.1, 1e308), (5e-324, 1e308), (5e-324, -0.0), (0.1, -0.0))
    assert shown(target, "box", {"wkb": ring}) == ["(0.1,1e+308),(5e-324,-0)"]
    assert shown(target, "polygon", {"wkb": wkb(3, (0, 0), (1, 2), (3, 0), (0, 0))}) == ["((0,0),(1,2),(3,0))"]
    assert shown(target, "lseg", {"wkb": wkb(2, (0, 0), (1, 2))}) == ["[(0,0),(1,2)]"]
    assert shown(target, "path", {"wkb": wkb(2, (0, 0)), "extensions": {"closed": "true"}}) == ["((0,0))"]
    assert shown(target, "path", {"wkb": wkb(2, (0, 0)), "extensions": {"closed": "false"}}) == ["[(0,0)]"]
    assert shown(target, "circle", {"center": {"x": 1, "y": 2}, "radius": 3}) == ["<(1,2),3>"]
    assert shown(target, "line", {"a": 1, "b": 2, "c": 3}) == ["{1,2,3}"]


@pytest.mark.parametrize(
    ("modes", "sql", "wire"),
    [
        ({}, "date", "soon"),
        ({}, "date", 2**31),
        ({}, "timestamp", 2**200),
        ({}, "timestamptz", "-4712-99"),
        ({}, "bytea", "*"),
        ({}, "bit(3)", "EA=="),
        ({}, "money", "free"),
        ({}, "point", {"x": 1}),
        ({}, "line", {"a": 1}),
        ({}, "circle", {"radius": 1}),
        ({}, "box", {}),
        ({}, "int[]", {}),
        ({"decimal": "precise"}, "numeric", {"scale": 1}),
        ({"decimal": "precise"}, "numeric", "1.5"),
        ({"decimal": "precise"}, "numeric(9,2)", "1.5"),
        ({"decimal": "precise"}, "numeric(9,2)", ""),
        ({"time_precision": "structured"}, "date", {}),
        ({"time_precision": "structured"}, "time", {"hour": 1}),
        ({"time_precision": "structured"}, "interval", {"years": 1}),
        ({"binary": "hex"}, "bytea", "0"),
    ],
)
def test_what_is_of_another_form_is_bad_data(modes: dict[str, str], sql: str, wire: Any, target: Target) -> None:
    """Never a NULL; and an error that makes the guard look for the message."""
    with pytest.raises(DBAPIError) as caught:
        shown(target, sql, wire, modes=modes)
    assert isinstance(caught.value.orig, psycopg2.Error)
    assert (caught.value.orig.pgcode or "")[:2] == "22"


def test_a_number_of_131072_digits(target: Target) -> None:
    number = 10**131071 + 7
    wire = number.to_bytes(number.bit_length() // 8 + 1, "big")
    ((found,),) = target.execute(f"select {SCHEMA}.decimal_of(:wire, 0)::text", wire=wire)
    assert found == "1" + "0" * 131070 + "7"
