"""Spark's expressions on Debezium's bytes: every message becomes one row, whatever it contains."""

import json
from typing import Any

import pytest

from app.model.row_layout import Layout, RowKind
from tests import messages as m
from tests.decoded import decoded_row
from tests.fix_decode import TOPIC, Decoded
from tests.messages import Debezium, Message, Table
from tests.workload import Shop

FLAT = Table("flat", {"id": m.INT, "v": m.TEXT})
#: Java's JSON parser gives up beyond these, which must not be an error of the whole epoch
DEEP, LONG = 5000, 100_000


def kinds(messages: list[Message], decode: Decoded) -> list[RowKind]:
    """What each message was taken for."""
    return [Layout.parse(text).kind for text in decode(messages)["layout"].to_pylist()]


def test_a_workload_decodes_to_what_it_means(decode: Decoded, request: pytest.FixtureRequest) -> None:
    """The same rows as the plain Python decoder of the tests makes."""
    messages = Shop(seed=4).messages(400)
    found = decode(messages).to_pylist()
    expected = [decoded_row(message, TOPIC, 0, offset) for offset, message in enumerate(messages)]
    if "compiled" in request.node.name:  # it knows nothing of transactions
        expected = [{**row, "transaction": None} for row in expected]
    assert found == expected


def test_with_envelope_the_rows_are_the_same_and_the_layout_names_the_schema(decode: Decoded) -> None:
    """Values differ only where the envelope makes Debezium write them differently (decimals)."""
    table = Table("flat", {"id": m.INT, "v": m.TEXT, "t": m.TIMESTAMPTZ})
    rows = [{"id": 1, "v": "a\tb", "t": None}, {"id": 2, "v": None, "t": None}]
    bare, enveloped = (
        [
            d.begin(),
            d.create(table, rows[0]),
            d.update(table, rows[1]),
            d.delete(table, rows[0]),
            d.heartbeat(),
            d.end(),
        ]
        for d in (Debezium(), Debezium(envelope=True))
    )
    without, with_envelope = decode(bare).to_pylist(), decode(enveloped).to_pylist()
    assert [row["line"] for row in with_envelope] == [row["line"] for row in without]
    assert [row["ts_ms"] for row in with_envelope] == [row["ts_ms"] for row in without]
    assert [row["sequence"] for row in with_envelope] == [row["sequence"] for row in without]
    layouts = [[Layout.parse(row["layout"]) for row in found] for found in (without, with_envelope)]
    for plain, described in zip(*layouts, strict=True):
        assert (plain.kind, plain.source, plain.columns) == (described.kind, described.source, described.columns)
        assert not plain.schema_hash
        assert bool(described.schema_hash) == (described.kind in (RowKind.UPSERT, RowKind.DELETE))
    assert layouts[1][1] == layouts[1][2], "one schema, one layout"


def test_another_schema_is_another_layout(decode: Decoded) -> None:
    d = Debezium(envelope=True)
    tables = [
        Table("flat", {"id": m.INT, "v": kind}) for kind in (m.DATE, m.TIMESTAMP, m.numeric(5, 2), m.numeric(5, 3))
    ]
    found = decode([d.create(table, {"id": 1, "v": None}) for table in tables])
    assert len(set(found["layout"].to_pylist())) == len(tables)


d = Debezium()
row = {"id": 1, "v": "x"}


def changed(**members: Any) -> Message:
    """A create whose value has these members in place of its own."""
    whole = json.loads(d.create(FLAT, row).value or b"")
    return Message(key=b'{"id":1}', value=json.dumps({**whole, **members}).encode())


@pytest.mark.parametrize("envelope", [False, True])
def test_what_carries_no_row_is_filtered(envelope: bool, decode: Decoded) -> None:
    source = Debezium(envelope=envelope)
    messages = [
        source.tombstone(FLAT, row),
        source.begin(),
        source.end(),
        source.heartbeat(),
        source.logical("with \\ and \t"),
        source.schema_change(FLAT),
        Message(key=None, value=None),
    ]
    assert kinds(messages, decode) == [RowKind.FILTERED] * len(messages)
    assert decode(messages)["line"].to_pylist() == [""] * len(messages)


def test_truncate_is_distinguished_from_a_delete_that_names_no_row(decode: Decoded) -> None:
    nothing = json.loads(d.delete(FLAT, row, keyed=False).value or b"")
    nothing["before"] = None
    keyless = Message(key=None, value=json.dumps(nothing).encode())
    found = [Layout.parse(text) for text in decode([d.truncate(FLAT), keyless])["layout"].to_pylist()]
    assert [(layout.kind, layout.source) for layout in found] == [
        (RowKind.TRUNCATE, "public.flat"),
        (RowKind.KEYLESS, "public.flat"),
    ]


MALFORMED = {
    "empty": b"",
    "blank": b"  ",
    "no JSON": b"hello",
    "half": (d.create(FLAT, row).value or b"")[:-20],
    "two values": b'{"op":"c"} {"op":"c"}',
    "null": b"null",
    "a number": b"5",
    "a string": b'"c"',
    "a list": b"[1]",
    "an empty object": b"{}",
    "another object": b'{"hello":"world"}',
    "an empty envelope": b'{"schema":null,"payload":{}}',
    "no operation": changed(op=None).value,
    "an unknown operation": changed(op="z").value,
    "an operation of another type": changed(op={"c": 1}).value,
    "no row": changed(after=None).value,
    "an empty row": changed(after={}).value,
    "a row that is no object": changed(after=5).value,
    "a row that is a list": changed(after=[1, 2]).value,
    "an update without row": changed(op="u", after=None).value,
    "invalid UTF-8": b'{"op":"c","after":{"id":1,"v":"\xff\xfe"}}',
    "half a character": b'{"op":"c","after":{"id":1,"v":"\xe2\x82"}}',
    "UTF-16": json.dumps({"op": "c"}).encode("utf-16"),
    "zero bytes": b"\0" * 20,
    "too deep": b'{"op":"c","after":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "Avro": b"\0\0\0\0\x01\x02hello",
}


def test_what_is_no_change_event_is_malformed_and_does_not_disturb_its_neighbours(decode: Decoded) -> None:
    good = d.create(FLAT, row)
    messages = [good, *(Message(key=b'{"id":1}', value=value) for value in MALFORMED.values()), good]
    found = decode(messages)
    names = ["good", *MALFORMED, "good"]
    taken = {name: Layout.parse(text).kind for name, text in zip(names, found["layout"].to_pylist(), strict=True)}
    assert taken == {**dict.fromkeys(names, RowKind.MALFORMED), "good": RowKind.UPSERT}
    assert found["line"].to_pylist()[0] == found["line"].to_pylist()[-1] == "1\tx\n"


def test_a_source_that_is_no_object_leaves_the_message_a_row_of_no_table(decode: Decoded) -> None:
    """Refused later, by name: no route takes it."""
    found = [Layout.parse(text) for text in decode([changed(source=7), changed(source=None)])["layout"].to_pylist()]
    assert [layout.table for layout in found] == ["", ""]


NUMBERS = [
    "0",
    "-1",
    "9007199254740993",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1" + "0" * 400,
    "0.1",
    "1.5",
    "-2.5E-10",
    "1.7976931348623157E308",
]


def test_numbers_keep_their_digits(decode: Decoded) -> None:
    value = '{"op":"c","source":{"schema":"public","table":"n"},"after":{"id":%s}}'
    found = decode([Message(key=None, value=(value % number).encode()) for number in NUMBERS])
    lines = [line.rstrip("\n") for line in found["line"].to_pylist()]
    whole = [number for number in NUMBERS if number.lstrip("-").isdigit()]
    assert lines[: len(whole)] == whole
    assert [float(line) for line in lines] == [float(number) for number in NUMBERS]


def test_values_of_every_json_type(decode: Decoded) -> None:
    after = {
        "text": 'a "quoted" one',
        "empty": "",
        "null": None,
        "true": True,
        "false": False,
        "list": [1, None, "a\tb", [2]],
        "object": {"b": 1, "a": "x\\y", "n": None},
        "long": "x" * LONG,
    }
    value = {"op": "r", "source": {"schema": "public", "table": "n"}, "after": after}
    (found,) = decode([Message(key=None, value=json.dumps(value).encode())]).to_pylist()
    fields = dict(zip(after, found["line"].rstrip("\n").split("\t"), strict=True))
    assert fields["text"] == 'a "quoted" one'
    assert (fields["empty"], fields["null"], fields["true"], fields["false"]) == ("", "\\N", "true", "false")
    assert json.loads(fields["list"].replace("\\\\", "\\")) == after["list"]
    assert json.loads(fields["object"].replace("\\\\", "\\")) == after["object"]
    assert fields["long"] == after["long"]


def test_white_space_and_escapes_in_the_json_change_nothing(decode: Decoded) -> None:
    value = json.loads(d.create(FLAT, {"id": 1, "v": "ä€🦀"}).value or b"")
    forms = [
        json.dumps(value, indent=3),
        json.dumps(value, ensure_ascii=True),
        json.dumps(value, ensure_ascii=False),
        json.dumps(dict(reversed(value.items()))),
        "\ufeff"[:0] + json.dumps(value) + "\n",
    ]
    found = decode([Message(key=b'{"id":1}', value=form.encode()) for form in forms])
    assert set(found["line"].to_pylist()) == {"1\tä€🦀\n"}
    assert len(set(found["layout"].to_pylist())) == 1


def test_a_key_that_is_not_utf8_makes_no_wrong_key(decode: Decoded) -> None:
    delete = d.delete(FLAT, row)
    messages = [Message(key=key, value=delete.value) for key in (b'{"id":"\xff"}', b"\xff", b"", b"{}", b"[1]")]
    found = kinds(messages, decode)
    assert found == [RowKind.MALFORMED, RowKind.MALFORMED, RowKind.KEYLESS, RowKind.KEYLESS, RowKind.KEYLESS]
