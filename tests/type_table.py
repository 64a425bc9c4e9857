"""Every type of Postgres, with values that are hard to carry, and what Debezium loses of them on its own.

`docs/TYPES.md` is made of this table (`python -m tests.type_table`), and `tests/system/test_types.py` sends every value
through the real chain: as row of the snapshot, as insert and as update.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
DOCUMENT = TOP / "docs" / "TYPES.md"
#: characters of a value that the document shows
_LONGEST = 40
_OPS = {"r": "in a snapshot", "cu": "after the snapshot"}

#: what both databases need before the tables
PRELUDE = (
    "create extension if not exists hstore",
    "create extension if not exists ltree",
    "create extension if not exists citext",
    "create type mood as enum ('sad', 'so, so', 'it''s \"fine\"')",
    "create type pair as (number int, word text)",
    "create domain whole as int check (value >= 0)",
    "create domain price as numeric(12, 2)",
    "create domain small_price as price check (value < 100)",
    "create domain day as date",
    # not every server is built with libxml
    "create function xml_if_there_is(content text) returns xml language plpgsql as"
    " $$ begin return content::xml; exception when feature_not_supported then return null; end $$",
)


@dataclass(frozen=True, kw_only=True)
class Modes:
    """How a connector is set, by Debezium's own names and values."""

    decimal: str = "precise"
    time_precision: str = "adaptive"
    binary: str = "bytes"
    hstore: str = "json"
    interval: str = "numeric"
    #: whether messages have their schema (`schemas.enable`)
    schema: bool = True

    @property
    def name(self) -> str:
        """For people."""
        words = (self.time_precision, self.decimal, self.binary, self.hstore, self.interval)
        return "-".join([*words, "schema" if self.schema else "bare"])

    @property
    def connector(self) -> dict[str, str]:
        """For the connector's configuration."""
        converter = "org.apache.kafka.connect.json.JsonConverter"
        enabled = str(self.schema).lower()
        return {
            "decimal.handling.mode": self.decimal,
            "time.precision.mode": self.time_precision,
            "binary.handling.mode": self.binary,
            "hstore.handling.mode": self.hstore,
            "interval.handling.mode": self.interval,
            "include.unknown.datatypes": "true",
            "key.converter": converter,
            "key.converter.schemas.enable": enabled,
            "value.converter": converter,
            "value.converter.schemas.enable": enabled,
        }

    @property
    def lane(self) -> dict[str, str]:
        """For the lane's configuration."""
        always = {"binary": self.binary}  # the schema does not say it
        without_schema = {"decimal": self.decimal, "time_precision": self.time_precision, "interval": self.interval}
        return always if self.schema else always | without_schema

    def are(self, wanted: Mapping[str, Sequence[str]]) -> bool:
        """Whether they are among those."""
        return all(getattr(self, name) in values for name, values in wanted.items())


_SETS = (
    Modes(),
    Modes(decimal="string", interval="string"),
    Modes(time_precision="adaptive_time_microseconds", binary="base64", hstore="map"),
    Modes(time_precision="connect", decimal="double", binary="base64-url-safe", interval="string"),
    Modes(time_precision="isostring", decimal="string", binary="hex", hstore="map", interval="string"),
    Modes(time_precision="microseconds"),
    Modes(time_precision="nanoseconds", decimal="double", binary="hex", hstore="map"),
    Modes(time_precision="structured", binary="base64-url-safe", hstore="map", interval="string"),
)
#: every value of every mode, with schema and without
MATRIX = tuple(Modes(**{**vars(modes), "schema": schema}) for modes in _SETS for schema in (True, False))
#: what a run without `--full-matrix` takes: Debezium's defaults, what the README recommends, and what differs most
SAMPLE = (MATRIX[0], MATRIX[3], MATRIX[15])


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What Debezium does not carry."""

    why: str
    #: modes in which it is lost; empty: always
    when: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: the values that it is about, as the case writes them; empty: all of them
    of: Sequence[str] = ()
    #: SQL over `{v}` that is still equal at both sides, where something is
    equal: str | None = None
    #: the text that arrives; None: NULL, unless `equal` says more
    arrives: str | None = None
    #: what happens to the message, if that is why the test does not send the value
    unsent: str = ""
    #: how it travelled: `r`, `c`, `u`
    ops: str = "rcu"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One type."""

    sql: str
    #: SQL expressions; NULL is added to each
    values: Sequence[str]
    losses: Sequence[Loss] = ()
    #: what the document says besides
    note: str = ""

    def loss(self, modes: Modes, value: str, op: str) -> Loss | None:
        """What is lost of a value on that way."""
        return next(
            (one for one in self.losses if modes.are(one.when) and (not one.of or value in one.of) and op in one.ops),
            None,
        )


def _text(*values: str) -> tuple[str, ...]:
    """SQL literals of texts."""
    return tuple("'" + value.replace("'", "''") + "'" for value in values)


_MOST_NINES = f"-{10**38 - 1}"
_HUGE = "('1' || repeat('0', 131070) || '7')::numeric"
_TINY = "('0.' || repeat('0', 16382) || '7')::numeric"
_ODD_TEXT = _text(
    "",
    " ",
    "\\N",
    "\\.",
    "back\\slash \\\\ \\t \\n",
    "tab\t newline\n return\r\n vertical\v feed\f bell\a delete\x7f",
    "'quote' \"double\" `tick` {brace} [bracket] (paren), comma; semi: colon",
    "null NULL \u001f unit",
    "äöü ß \u00ad \u200b \u202e \ufeff \ufffd \ufffe \uffff",
    "🦀 👩‍👩‍👧‍👦 \U0010ffff",
    "__debezium_unavailable",
)
#: the basic plane, and some of every other
_MANY_CHARACTERS = (
    "(select string_agg(chr(i), '') from generate_series(1, 65535) i where i not between 55296 and 57343)",
    "(select string_agg(chr(i), '') from generate_series(65536, 1114111, 97) i)",
)
_DOUBLE = Loss(
    why="a double has about 16 digits, and no trailing zeros", when={"decimal": ["double"]}, equal="({v})::float8"
)
_SPECIAL = Loss(why="NaN and infinities", when={"decimal": ["precise"]}, of=_text("NaN"), unsent="the connector fails")
_SPECIAL_INFINITY = Loss(
    why="NaN and infinities",
    when={"decimal": ["precise"]},
    of=_text("Infinity", "-Infinity"),
    unsent="the connector fails",
)
_MILLIS = Loss(why="milliseconds only", when={"time_precision": ["connect"]}, equal="date_trunc('milliseconds', {v})")
_DOUBLE_ARRAY = Loss(
    why="a double has about 16 digits, and no trailing zeros", when={"decimal": ["double"]}, equal="({v})::float8[]"
)
_BEYOND_NANOS = Loss(
    why="what 64 bits of nanoseconds do not hold, which is before 1677 and after 2262",
    when={"time_precision": ["nanoseconds"]},
    of=_text("0001-01-01", "1582-10-10 01:02:03", "9999-12-31 23:59:59.999999", "9999-12-31 23:59:59.999")
    + _text("0044-03-15 01:02:03 BC", "294246-12-31 23:59:59.999999", "4713-01-01 00:00 BC"),
)
_NOT_STRUCTURED = sorted({one.time_precision for one in MATRIX} - {"structured"})
_NOT_SENT = Loss(why="Debezium leaves the column out of its messages")

GROUPS: Mapping[str, Sequence[Case]] = {
    "Numbers": (
        Case(sql="smallint", values=("0", "-32768", "32767")),
        Case(sql="integer", values=("0", "-2147483648", "2147483647")),
        Case(sql="bigint", values=("0", "-9223372036854775808", "9223372036854775807", "9007199254740993")),
        Case(sql="oid", values=("0", "4294967295")),
        Case(
            sql="real",
            values=("0", "'-0'", "0.1", "3.4028235e38", "1e-45", "'NaN'", "'Infinity'", "'-Infinity'", "16777217"),
        ),
        Case(
            sql="double precision",
            values=("0", "'-0'", "0.1", "1.7976931348623157e308", "5e-324", "'NaN'", "'Infinity'", "'-Infinity'"),
        ),
        Case(
            sql="numeric",
            values=(
                *_text("0", "0.00", "1.50", "-123456789012345678901234567890.123456789", "1e20"),
                *_text("NaN", "Infinity", "-Infinity"),
                *(_HUGE, f"-{_HUGE}", _TINY),
            ),
            losses=(
                _SPECIAL,
                _SPECIAL_INFINITY,
                Loss(why="trailing zeros", when={"decimal": ["precise"]}, equal="trim_scale({v})"),
                Loss(
                    why="beyond what a double holds: infinite",
                    when={"decimal": ["double"]},
                    of=(_HUGE,),
                    arrives="Infinity",
                ),
                Loss(
                    why="beyond what a double holds: infinite",
                    when={"decimal": ["double"]},
                    of=(f"-{_HUGE}",),
                    arrives="-Infinity",
                ),
                Loss(why="smaller than any double", when={"decimal": ["double"]}, of=(_TINY,), equal="round({v}, 300)"),
                _DOUBLE,
            ),
            note="`precise` without schema: the target's column must have no precision, as the source's.",
        ),
        Case(
            sql="numeric(12,2)",
            values=_text("0", "0.00", "-0.01", "9999999999.99", "-9999999999.99", "100", "NaN"),
            losses=(_SPECIAL, _DOUBLE),
        ),
        Case(
            sql="numeric(38,0)",
            values=("0", f"{10**37}", _MOST_NINES, "255", "-256"),
            losses=(
                Loss(
                    why="the double is greater",
                    when={"decimal": ["double"]},
                    of=(_MOST_NINES,),
                    unsent="refused at the target, where it is too much",
                ),
                _DOUBLE,
            ),
        ),
        Case(
            sql="numeric(1000,500)",
            values=("0", "1e499", "-1e-500"),
            losses=(
                Loss(
                    why="beyond what a double holds",
                    when={"decimal": ["double"]},
                    of=("1e499",),
                    unsent="refused at the target: the type has no infinity",
                ),
                Loss(
                    why="smaller than any double",
                    when={"decimal": ["double"]},
                    of=("-1e-500",),
                    equal="round({v}, 300)",
                ),
                _DOUBLE,
            ),
        ),
        Case(
            sql="money",
            values=("0", "'-0.01'", "'1234.50'", "'92233720368547758.07'", "'-92233720368547758.08'"),
            losses=(
                Loss(
                    why="a double has about 16 digits",
                    when={"decimal": ["double"]},
                    of=("'92233720368547758.07'", "'-92233720368547758.08'"),
                    unsent="refused at the target, where it is too much",
                ),
            ),
            note="`money.fraction.digits` as it is by default (2).",
        ),
        Case(sql="whole", values=("0", "2147483647"), note="A domain."),
        Case(sql="price", values=("0", "-1.50"), losses=(_DOUBLE,), note="A domain over numeric(12,2)."),
        Case(sql="small_price", values=("0", "-1.50"), losses=(_DOUBLE,), note="A domain over a domain."),
    ),
    "Text": (
        Case(sql="text", values=(*_ODD_TEXT, *_MANY_CHARACTERS)),
        Case(sql="varchar(40)", values=_text("", "ä", "x" * 40, "\\N")),
        Case(sql="char(5)", values=_text("", "a", "abcde", "ä \\")),
        Case(sql='"char"', values=_text("", "a", "\\")),
        Case(sql="name", values=_text("", "ä\"'")),
        Case(sql="citext", values=_text("", "MiXeD ä\n")),
        Case(sql="mood", values=_text("sad", "so, so", 'it\'s "fine"'), note="An enum."),
        Case(sql="json", values=_text("null", '"null"', ' { "a" : 1.0, "a": [1e400, -0] }', "[]", '"\\u00e4\\n"', "1")),
        Case(
            sql="jsonb",
            values=_text("null", '{"a": [1.50, null, {"b": "\\"x\\""}]}', '"ä\\n"', "123456789012345678901"),
        ),
        Case(
            sql="xml", values=[f"xml_if_there_is({content})" for content in _text("<a b='1'>ä\n&amp;</a>", "plain", "")]
        ),
        Case(sql="ltree", values=_text("", "a.b_1.C")),
        Case(
            sql="hstore",
            values=_text("", '"a"=>"1"', '"q\\"\\\\ä\n"=>"v\\"\\\\,=>"', '"n"=>NULL', '""=>""', "a=>NULL, b=>NULL"),
        ),
        Case(sql="tsvector", values=_text("", "'a':1A,2 'it''s':3 'b\\\\c'")),
        Case(sql="tsquery", values=_text("'a' & !'b''c'", "'x':*A <-> 'y'")),
        Case(sql="xid8", values=("'18446744073709551615'",)),
        Case(sql="jsonpath", values=_text('$."a"[*]?(@ > 1)')),
    ),
    "Bits and bytes": (
        Case(sql="boolean", values=("true", "false")),
        Case(sql="bit(1)", values=("B'0'", "B'1'")),
        Case(
            sql="bit(10)", values=("B'0000000000'", "B'0000000001'", "B'1000000000'", "B'1111111111'", "B'0100000001'")
        ),
        Case(sql="bit(64)", values=("B'0'::bit(64)", "B'1'::bit(64)", "(-1)::bit(64)", "1::bit(64)")),
        Case(
            sql="varbit(20)",
            values=("B''", "B'1'", "B'101'", "B'0101'", "B'0000'", "B'11111111111111111111'"),
            losses=(Loss(why="leading zeros", equal="ltrim(({v})::text, '0')"),),
        ),
        Case(
            sql="varbit",
            values=("B'1'", "B'00101'", "repeat('1', 100)::varbit"),
            losses=(Loss(why="leading zeros", equal="ltrim(({v})::text, '0')"),),
        ),
        Case(
            sql="bytea",
            values=(
                "''",
                "'\\x00'",
                "'\\xfbffbf'",
                "(select string_agg(set_byte('\\x00', 0, i), ''::bytea) from generate_series(0, 255) i)",
            ),
        ),
        Case(sql="uuid", values=_text("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")),
    ),
    "Networks": (
        Case(sql="inet", values=_text("0.0.0.0", "192.168.1.5/24", "::1", "2001:db8::1/64")),
        Case(sql="cidr", values=_text("0.0.0.0/0", "10.1.0.0/16", "2001:db8::/32")),
        Case(sql="macaddr", values=_text("08:00:2b:01:02:03")),
        Case(sql="macaddr8", values=_text("08:00:2b:01:02:03:04:05")),
        Case(sql="pg_lsn", values=_text("0/0", "FFFFFFFF/FFFFFFFF")),
    ),
    "Time": (
        Case(
            sql="date",
            values=_text("1970-01-01", "1969-12-31", "2024-02-29", "0001-01-01", "1582-10-10", "9999-12-31")
            + _text("10000-01-01", "infinity", "-infinity", "0044-03-15 BC"),
            losses=(
                Loss(why="ten days, in a snapshot", of=_text("1582-10-10"), arrives="1582-10-20", ops="r"),
                Loss(why="the era, in a snapshot", of=_text("0044-03-15 BC"), arrives="0044-03-15", ops="r"),
            ),
        ),
        Case(sql="day", values=_text("2024-02-29"), note="A domain over date."),
        Case(
            sql="time",
            values=_text("00:00", "23:59:59.999999", "12:34:56.000001", "24:00"),
            losses=(
                Loss(
                    why="the end of the day",
                    when={"time_precision": ["isostring"]},
                    of=_text("24:00"),
                    arrives="00:00:00",
                ),
                Loss(why="the end of the day", when={"time_precision": ["structured"]}, of=_text("24:00")),
                _MILLIS,
            ),
        ),
        Case(
            sql="time(3)",
            values=_text("00:00", "23:59:59.999", "12:34:56.001"),
        ),
        Case(
            sql="timetz",
            values=_text("00:00+00", "23:59:59.999999+00", "12:00:00+02", "12:00:00.5-11:30", "24:00+00"),
            losses=(
                Loss(
                    why="the offset: the time at UTC arrives",
                    when={"time_precision": _NOT_STRUCTURED},
                    equal="(timestamptz '2000-01-01 00:00Z' + (({v}) at time zone 'UTC')::time)::timetz",
                ),
            ),
        ),
        Case(
            sql="timestamp",
            values=_text("1970-01-01", "1969-12-31 23:59:59.999999", "2024-02-29 12:34:56.000001", "0001-01-01")
            + _text(
                "1582-10-10 01:02:03", "9999-12-31 23:59:59.999999", "infinity", "-infinity", "0044-03-15 01:02:03 BC"
            )
            + _text("2262-04-11 23:47:16.854775", "294246-12-31 23:59:59.999999", "4713-01-01 00:00 BC"),
            losses=(_BEYOND_NANOS, _MILLIS),
        ),
        Case(
            sql="timestamp(3)",
            values=_text("1970-01-01", "1969-12-31 23:59:59.999", "9999-12-31 23:59:59.999", "infinity"),
            losses=(_BEYOND_NANOS,),
        ),
        Case(sql="timestamp(0)", values=_text("2024-02-29 12:34:56", "-infinity")),
        Case(
            sql="timestamptz",
            values=_text(
                "1970-01-01Z", "1969-12-31 23:59:59.999999Z", "2024-02-29 12:34:56.000001+05:30", "0001-01-01Z"
            )
            + _text(
                "1582-10-10 01:02:03Z",
                "9999-12-31 23:59:59.999999Z",
                "infinity",
                "-infinity",
                "0044-03-15 01:02:03Z BC",
            )
            + _text("294276-12-31 23:59:59.999999Z", "4713-01-01 00:00Z BC", "10000-01-01Z"),
        ),
        Case(sql="timestamptz(3)", values=_text("2024-02-29 12:34:56.001Z", "1969-12-31 23:59:59.999Z")),
        Case(
            sql="interval",
            values=_text(
                "0", "1 year 2 mons 3 days 04:05:06.789012", "-1 year 2 mons -3 days 04:05:06", "1 mon", "30 days"
            )
            + _text("-00:00:00.000001", "100000:00:00", "100 years"),
            losses=(
                Loss(
                    why="a month becomes 30.4375 days and a day 24 hours",
                    when={"interval": ["numeric"], "time_precision": _NOT_STRUCTURED},
                    equal="(extract(year from {v}) * 12 + extract(month from {v})) * 2629800 + extract(day from {v})"
                    " * 86400 + extract(hour from {v}) * 3600 + extract(minute from {v}) * 60"
                    " + extract(second from {v})",
                ),
            ),
        ),
    ),
    "Ranges": (
        Case(sql="int4range", values=_text("empty", "[1,5)", "(,)", "[-2147483648,)")),
        Case(sql="int8range", values=_text("empty", "[1,9223372036854775807)")),
        Case(sql="numrange", values=_text("empty", "(1.50,2.00]", "[,NaN]")),
        Case(sql="tsrange", values=_text("empty", "[2024-01-01,infinity)", "(,0044-03-15 BC)")),
        Case(sql="tstzrange", values=_text("empty", "[2024-01-01 00:00:00.5+02,)")),
        Case(sql="daterange", values=_text("empty", "[2024-01-01,2024-02-29)")),
        Case(sql="int4multirange", values=_text("{}", "{[1,3),[5,9)}")),
    ),
    "Shapes": (
        Case(sql="point", values=_text("(0,0)", "(-0,0.1)", "(1e308,5e-324)", "(NaN,Infinity)")),
        Case(sql="line", values=_text("{1,2,3}", "{0.1,-1,1e300}")),
        Case(sql="lseg", values=_text("[(0,0),(0.1,-1)]")),
        Case(sql="box", values=_text("(3,4),(1,2)", "(0,0),(0,0)")),
        Case(sql="path", values=_text("((0,0),(1,1),(2,0))", "[(0,0),(1,1)]", "[(0,0)]")),
        Case(sql="polygon", values=_text("((0,0),(1,1),(2,0))", "((0.1,-0.1))")),
        Case(sql="circle", values=_text("<(0,0),0>", "<(0.1,-1),1e300>")),
    ),
    "Composites": (
        Case(
            sql="pair",
            values=("row(1, 'a,b')::pair", "row(null, null)::pair", "row(-1, '\"\\ä\n')::pair"),
        ),
    ),
    "Arrays": (
        Case(sql="smallint[]", values=_text("{}", "{1,NULL,-32768}")),
        Case(
            sql="integer[]",
            values=_text("{}", "{1,NULL,-3}", "{{1,2},{3,4}}", "[2:3]={1,2}"),
            losses=(
                Loss(why="the values of more than one dimension", of=_text("{{1,2},{3,4}}"), arrives="{NULL,NULL}"),
                Loss(why="a lower bound other than 1", of=_text("[2:3]={1,2}"), arrives="{1,2}"),
            ),
        ),
        Case(sql="bigint[]", values=_text("{9223372036854775807,-9223372036854775808,9007199254740993}")),
        Case(sql="real[]", values=_text("{0.1,-0,NaN,Infinity}")),
        Case(sql="double precision[]", values=_text("{0.1,-0,NaN,-Infinity,1e308,5e-324}")),
        Case(
            sql="numeric[]",
            values=_text("{}", "{1.5,NULL,-12345678901234567890.123}"),
            losses=(_DOUBLE_ARRAY,),
        ),
        Case(sql="numeric(12,2)[]", values=_text("{1.50,NULL,-0.01}"), losses=(_DOUBLE_ARRAY,)),
        Case(sql="boolean[]", values=_text("{t,NULL,f}")),
        Case(sql="text[]", values=("array['', null, 'NULL', 'a,b', '\"', '\\', '{}', E'\\t\\n', 'ä🦀']", "'{}'")),
        Case(sql="varchar(5)[]", values=_text("{a,NULL}")),
        Case(sql="char(3)[]", values=_text("{a,NULL}")),
        Case(sql="citext[]", values=_text("{Ab,NULL}")),
        Case(sql="mood[]", values=("array['so, so', 'it''s \"fine\"']::mood[]",)),
        Case(sql="uuid[]", values=_text("{00000000-0000-0000-0000-000000000001,NULL}")),
        Case(sql="json[]", values=('array[\'{"a": "\\""}\'::json, null]',)),
        Case(sql="jsonb[]", values=('array[\'{"a": "\\""}\'::jsonb, null, \'null\']',)),
        Case(sql="bytea[]", values=("array['\\x00ff'::bytea, null, '']",)),
        Case(sql="inet[]", values=_text("{192.168.1.5/24,NULL}")),
        Case(sql="date[]", values=_text("{1969-12-31,NULL,2024-02-29}")),
        Case(sql="time[]", values=_text("{23:59:59,NULL}")),
        Case(sql="timetz[]", values=_text("{23:59:59+00,NULL}")),
        Case(sql="timestamp[]", values=_text('{"2024-02-29 12:34:56.123",NULL}')),
        Case(sql="timestamptz[]", values=_text('{"2024-02-29 12:34:56.123+02",NULL}')),
        Case(sql="int4range[]", values=_text('{"[1,5)",NULL}')),
        Case(sql="hstore[]", values=("array['a=>1, b=>NULL'::hstore, null]",)),
        Case(sql="oid[]", values=_text("{0,4294967295}")),
        Case(sql="numrange[]", values=_text('{"[1.50,2)"}')),
        Case(sql="pair[]", values=("array[row(1, 'a')::pair]",)),
        Case(sql="ltree[]", values=_text("{a.b,c}")),
        Case(sql="money[]", values=_text("{1.50}"), losses=(_NOT_SENT,)),
        Case(sql="interval[]", values=_text("{1 day}"), losses=(_NOT_SENT,)),
        Case(sql="point[]", values=("'{\"(1,2)\"}'",), losses=(_NOT_SENT,)),
        Case(sql="xml[]", values=("array[xml_if_there_is('<a/>')]",), losses=(_NOT_SENT,)),
        Case(sql="varbit[]", values=_text("{101}"), losses=(_NOT_SENT,)),
    ),
}

_HEAD = """# Types

What of each type of Postgres arrives, for every way in which the connector may be set (with
`include.unknown.datatypes: true`). Made of `tests/type_table.py` by `python -m tests.type_table`;
`tests/system/test_types.py` sends all of it from a source through Debezium 3.7 and Kafka to a target: as row of the
snapshot, as insert and as update, with schemas in the messages and without. **Exact** means that the text of the
value is the same at both sides, NULL included. What is lost is lost in Debezium: it is not in the message any more.

Least is lost with `decimal.handling.mode: string`, `interval.handling.mode: string`, and `time.precision.mode:
adaptive`. A value that is not of the form that its type has is refused with an error of SQLSTATE class 22, and its
message goes into quarantine.
"""


def document() -> str:
    """The text of docs/TYPES.md."""
    parts = [_HEAD]
    for group, cases in GROUPS.items():
        parts += [f"\n## {group}\n", "| type | values sent | lost by Debezium |", "|---|---|---|"]
        parts += [f"| `{case.sql}` | {_shown(case)} | {_lost(case)} |" for case in cases]
    return "\n".join(parts) + "\n"


def _shown(case: Case) -> str:
    values = [_cell(value) for value in case.values]
    return " ".join(values) + (f"<br>{case.note}" if case.note else "")


def _cell(value: str) -> str:
    """SQL in a table of Markdown: one line of printable characters, and not too many of them."""
    line = value.encode("unicode_escape").decode() if not value.isprintable() else value
    line = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
    return "`" + line.replace("|", "¦").replace("`", "'") + "`"


def _lost(case: Case) -> str:
    return "<br>".join(_loss_text(loss) for loss in case.losses) or "**exact**"


def _loss_text(loss: Loss) -> str:
    when = " and ".join(f"`{name}: {' | '.join(values)}`".replace("|", "or") for name, values in loss.when.items())
    of = f" of {', '.join(_cell(value) for value in loss.of)}" if loss.of else ""
    ops = f" ({_OPS[loss.ops]})" if loss.ops in _OPS else ""
    if loss.unsent:
        arrives = loss.unsent
    elif loss.equal:
        arrives = ""
    else:
        arrives = "NULL arrives" if loss.arrives is None else f"`{loss.arrives}` arrives"
    return ": ".join(filter(None, [when, loss.why + of + ops, arrives]))


if __name__ == "__main__":
    DOCUMENT.write_text(document())
