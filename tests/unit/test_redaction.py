"""Redaction: which columns are hidden, and that nothing of them is left in what is shown."""

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from app.config.redaction import Redaction
from app.config.routes import RouteInvalid
from app.quarantine.lossless_json import HIDDEN, MAX_DEPTH, Document
from app.quarantine.redacted_text import document, error_text

CUSTOMERS = Redaction(["public.customers.email"]).columns("public", "customers")
ROW = b'{"before":null,"after":{"id":7,"email":"ann@example.org","balance":1.10},"source":{"table":"customers"}}'

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@pytest.mark.parametrize(
    ("pattern", "place", "hidden"),
    [
        ("public.customers.email", ("public", "customers", "email"), True),
        ("public.customers.email", ("public", "customers", "e-mail"), False),
        ("public.customers.email", ("public", "orders", "email"), False),
        ("public.customers.email", ("public", "customers", "EMAIL"), False),
        ("*.ssn", ("any", "table", "ssn"), True),
        ("*.ssn", ("any", "table", "ssn2"), False),
        ("public.*.*_secret", ("public", "orders", "my_secret"), True),
        ("public.*.*_secret", ("shop", "orders", "my_secret"), False),
        ("public.customers.*", ("public", "customers", "anything"), True),
        ("public.a.b.c", ("public", "a.b", "c"), True),
    ],
)
def test_which_columns(pattern: str, place: tuple[str, str, str], hidden: bool) -> None:
    assert (place[2] in Redaction([pattern]).columns(*place[:2])) is hidden


def test_an_unknown_table_may_be_any() -> None:
    columns = Redaction(["public.customers.email", "*.ssn"]).columns(None, None)
    assert "email" in columns
    assert "ssn" in columns
    assert not Redaction([]).columns(None, None)
    assert not Redaction(["public.customers.email"]).columns("public", "orders")


@pytest.mark.parametrize("pattern", ["email", "customers.email", "public..email", "public.customers.", ".a.b", ""])
def test_a_pattern_that_would_never_match(pattern: str) -> None:
    with pytest.raises(RouteInvalid):
        Redaction([pattern])


def test_a_row_without_its_secret() -> None:
    found = document(ROW, CUSTOMERS)
    assert found is not None
    assert json.loads(found.render())["after"] == {"id": 7, "email": HIDDEN, "balance": 1.1}
    assert "1.10" in found.render(), "digits stay as they are"


def test_with_envelope_and_inside_arrays() -> None:
    enveloped = b'{"schema":{"fields":[{"field":"email"}]},"payload":{"after":[{"email":{"deep":["x@y"]}}]}}'
    found = document(enveloped, CUSTOMERS)
    assert found is not None
    assert "x@y" not in found.render()
    assert '"field": "email"' in found.render(), "the column's name is no secret"


@pytest.mark.parametrize("data", [b'"ann@example.org"', b'[["ann@example.org"]]', b"7", b'{"email":"ann', b"\xff"])
def test_values_without_names_cannot_be_distinguished(data: bytes) -> None:
    assert document(data, CUSTOMERS) is None


def test_members_stay_as_they_were_sent() -> None:
    text = '{"b": 1.10, "a": 12345678901234567890123, "b": -0.0, "c": 1E400}'
    found = Document.parse(text.encode())
    assert found is not None
    assert found.render() == text


@given(documents)
def test_rendering_changes_no_value(value: object) -> None:
    found = Document.parse(json.dumps(value).encode())
    assert found is not None
    assert json.loads(found.render()) == value


@given(documents, st.text(st.characters(categories=["Lu"]), min_size=12))
def test_a_hidden_value_is_nowhere(value: object, secret: str) -> None:
    assume(secret not in json.dumps(value, ensure_ascii=False))
    message = {"after": {"email": [secret, {"x": secret}], "other": value}}
    found = document(json.dumps(message, ensure_ascii=False).encode(), CUSTOMERS)
    assert found is not None
    assert secret not in found.render()


@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, 5_000, 200_000])
def test_what_is_too_deep_is_left(depth: int) -> None:
    assert Document.parse(b"[" * depth + b"]" * depth) is None
    assert Document.parse(b'{"a":' * depth + b"1" + b"}" * depth) is None


FAILING = (
    'null value in column "name" violates not-null constraint; '
    "DETAIL:  Failing row contains (7, ann@example.org, null).; CONTEXT:  COPY x, line 1 (SQLSTATE 23502)"
)


def test_an_error_says_nothing_of_the_row() -> None:
    shown = error_text(FAILING, CUSTOMERS, b'{"id":7}', ROW)
    assert shown == 'null value in column "name" violates not-null constraint (SQLSTATE 23502)'
    assert error_text(FAILING.replace("; ", "\n"), CUSTOMERS, None, None) == shown
    assert error_text(FAILING, Redaction([]).columns("public", "customers"), None, ROW) == FAILING


@pytest.mark.parametrize("label", ["DETAIL", "DÉTAIL ", "DETALLE", "描述", "ПОДРОБНОСТИ"])
def test_in_whatever_language_the_server_speaks(label: str) -> None:
    shown = error_text(f"duplicate key\n{label}:  Key (email)=(ann@example.org) already exists.", CUSTOMERS, None, None)
    assert shown == "duplicate key"


def test_values_in_the_sentence_itself() -> None:
    raw = 'invalid input syntax for type integer: "ann@example.org" (SQLSTATE 22P02)'
    shown = error_text(raw, CUSTOMERS, None, ROW)
    assert shown == f'invalid input syntax for type integer: "{HIDDEN}" (SQLSTATE 22P02)'
    by_key = error_text("no such row: k-1", CUSTOMERS, b'{"email":"k-1"}', None)
    assert by_key == f"no such row: {HIDDEN}"


def test_the_longer_value_goes_first() -> None:
    row = b'{"after":{"email":["ab","abc"]}}'
    assert error_text("abc ab", CUSTOMERS, None, row) == f"{HIDDEN} {HIDDEN}"
