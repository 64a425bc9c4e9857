"""Any text gets through: JSON, Spark's expression, COPY, Postgres; and comes back as it was.

Hundreds of texts go through one Spark job and one COPY, so that many can be tried.
"""

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from app.apply import staging
from app.apply.encoding import TEXT
from app.apply.staging import Field, Staging
from app.apply.target_tables import Column
from app.model.arrow import compute
from tests import messages as m
from tests.fix_decode import Decoded
from tests.fix_target import Target
from tests.messages import Debezium, Table

NOTE = Table("note", {"id": m.INT, "one": m.TEXT, "other": m.TEXT})
FIELDS = tuple(
    Field(Column(name=name, type=kind.sql, base=kind.sql, typmod=-1, is_array=False, generated=False), TEXT)
    for name, kind in NOTE.columns.items()
)

#: Postgres' text holds every character but NUL; surrogates are no characters
characters = st.characters(codec="utf-8", exclude_characters="\0")
#: what COPY's text format gives a meaning, and what looks like it
special = st.sampled_from(
    [
        *(
            "\\",
            "\t",
            "\n",
            "\r",
            "\r\n",
            "\\N",
            "\\.",
            "\\n",
            "\\t",
            "\\\\",
            "\\x41",
            "\\101",
            "\\b",
            "\b",
            "\f",
            "\v",
        ),
        *("\u2028", "\u0085", "\ufeff", "\x1f", "\x7f", "🦀", '"', "'", "{", "}", ",", "%s", "$$", "", " "),
    ]
)
texts = st.none() | st.lists(special, max_size=6).map("".join) | st.text(characters, max_size=20)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.large_base_example])
@given(pairs=st.lists(st.tuples(texts, texts), min_size=100, max_size=200))
def test_every_text_survives_decoding_and_copy(
    pairs: list[tuple[str | None, str | None]], decode: Decoded, target: Target
) -> None:
    target.execute("drop table if exists note")
    target.create(NOTE)
    debezium = Debezium()
    rows = [{"id": number, "one": one, "other": other} for number, (one, other) in enumerate(pairs)]
    lines = decode([debezium.create(NOTE, row) for row in rows])["line"].combine_chunks()
    with target.engine.begin() as connection:
        assert _copy(connection, lines) == len(pairs)
    assert list(target.rows("public.note").values()) == rows


def _copy(connection: Connection, lines: pa.Array) -> int:
    return staging.copy(connection, Staging('"public"."note"', FIELDS), lines)


def test_a_slice_of_the_lines_is_copied_and_nothing_else(decode: Decoded, target: Target) -> None:
    """The buffer that COPY reads begins and ends in the middle of the array's."""
    target.create(NOTE)
    debezium = Debezium()
    rows = [{"id": number, "one": "x" * number, "other": None} for number in range(50)]
    lines = decode([debezium.create(NOTE, row) for row in rows])["line"].combine_chunks()
    with target.engine.begin() as connection:
        _copy(connection, lines.slice(10, 5))
        _copy(connection, lines.slice(0, 0))
        _copy(connection, compute.take(lines, [40, 30]))
    assert sorted(target.rows("public.note")) == [(10,), (11,), (12,), (13,), (14,), (30,), (40,)]
