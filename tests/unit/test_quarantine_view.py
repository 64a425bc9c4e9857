"""Whatever bytes a message has, what is shown of it is printable and of limited length."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.cli.quarantine_view import MAX_CHARACTERS, MAX_DUMPED_BYTES, bytes_document, shown
from app.cli.rendering import printable
from app.config.redaction import Columns, Redaction
from app.poison.storable_text import MAX_ERROR_CHARACTERS, storable

NOTHING = Columns(())
HIDING = Redaction(["*.email"]).columns("public", "customers")


def text_of(data: bytes | None, columns: Columns) -> str:
    """As it is shown, which `--json` has all of."""
    part = bytes_document(data, columns)
    assert shown(json.loads(json.dumps(part))) == shown(part)
    return shown(part)


@given(st.binary() | st.text().map(str.encode))
def test_nothing_commands_the_terminal(data: bytes) -> None:
    text = text_of(data, NOTHING)
    assert all(one.isprintable() or one == "\n" for one in text)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "null"),
        (b"", ""),
        (b'{"b":1,"a":[1.10,null]}', '{"b": 1, "a": [1.10, null]}'),
        (b"hello\x1b[2J", "hello\\u001b[2J"),
        (b"a\0b", "a\\u0000b"),
        ("\u202egnol".encode(), "\\u202egnol"),
        ('{"a":"\u202e\x7f"}'.encode(), '{"a": "\\u202e\\u007f"}'),
        (b'{"a":"\\ud800"}', '{"a": "\\ud800"}'),
        ("\U000e0001".encode(), "\\udb40\\udc01"),
        (b"\xff\0A", f"00000000  {'ff 00 41':<48} ..A"),
    ],
)
def test_shown(data: bytes | None, text: str) -> None:
    assert text_of(data, NOTHING) == text


def test_what_is_hidden_is_all_that_changes() -> None:
    data = b'{"a":1.10,"b":"\\ud800\x7f","email":"ann@example.org"}'
    assert text_of(data, HIDING) == '{"a": 1.10, "b": "\\ud800\\u007f", "email": "***"}'


def test_a_large_value_is_cut() -> None:
    number = "1" * (3 * MAX_CHARACTERS)
    for data in (number.encode(), f'{{"a": {number}}}'.encode(), f"no json {number}".encode()):
        text = text_of(data, NOTHING)
        assert len(text) < MAX_CHARACTERS + 100
        assert "characters in all" in text
    dump = text_of(b"\xff" * 10**6, NOTHING)
    assert len(dump.splitlines()) == MAX_DUMPED_BYTES // 16 + 1
    assert dump.endswith("... (1,000,000 bytes in all)")


@pytest.mark.parametrize("data", [b"ann@example.org", b"\xff ann@example.org", b'"ann@example.org"', b'{"a":"ann@ex'])
def test_what_cannot_be_redacted_is_not_shown(data: bytes) -> None:
    assert "ann@" not in text_of(data, HIDING)
    assert "--raw" in text_of(data, HIDING)


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_json_stays_json(row: dict[str, object]) -> None:
    assert json.loads(text_of(json.dumps(row, ensure_ascii=False).encode(), NOTHING)) == row


@given(st.text(st.characters()))
def test_text_without_anything_odd_stays(text: str) -> None:
    assert printable(text) == text or not text.replace("\n", "").isprintable()


@given(st.text(st.characters()))
def test_any_error_can_be_stored(text: str) -> None:
    safe = storable(text)
    assert "\0" not in safe
    assert safe.encode().decode() == safe
    if "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text):
        assert safe == text


def test_a_long_error_is_cut() -> None:
    assert len(storable("x" * 10**6)) == MAX_ERROR_CHARACTERS
