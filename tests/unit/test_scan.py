"""Compiled code takes of a message what Python takes, or leaves it: the same rows, whatever the bytes are."""

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.config.settings import SourceSettings
from app.decode import debezium
from app.decode import scan_loader as scanner
from app.decode.debezium import WORTH_COMPILING, DebeziumJson
from app.decode.scan_loader import Scanner
from app.kafka.batch import BlockBatch
from app.kafka.spans import ListBatch
from app.model.offsets import TopicPartition
from tests.fix_decode import packed
from tests.messages import FIRST_TS_MS
from tools.testbed.tables import BEGIN_MICROS
from tools.testbed.workload import Kind, Workload, key_of, value_of

texts = st.text(max_size=12) | st.sampled_from(["", "\\", "\t", "\n\r", '"', "\b\f/", "\x00", "\x7f", "é€😀", "\\N"])
numbers = st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | st.just(-0.0)
scalars = texts | numbers | st.booleans() | st.none()
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3))
columns = st.sampled_from(["id", "name", "op", "after", "source", "ts_ms", "ä", 'a"b', ""])
rows = st.none() | st.dictionaries(columns, scalars | anything, max_size=5)
sources = st.none() | st.fixed_dictionaries(
    {"ts_ms": st.sampled_from([FIRST_TS_MS, FIRST_TS_MS + 1, 0, -1, None, "1", 1.5, 10**19])},
    optional={
        "schema": st.none() | texts,
        "table": st.sampled_from(["one", "two", "ü", 'a"b', None, 7]),
        "sequence": st.sampled_from(['["1","2"]', None, "", 'é"', [1]]),
        "lsn": anything,
    },
)
keys = st.sampled_from(
    [
        *[
            None,
            b"",
            b" ",
            b"{}",
            b"[1]",
            b'"1"',
            b"1",
            b"{",
            b'{"id":1}',
            b'{"id":1,"b":"x\\n"}',
            b' {"id":1}',
            b'{"id":1} ',
        ],
        *[b'{"id":1}x', b'{"id":1,"id":2}', b'{"id":"\xff"}', b'{"id":{"a":1}}', b'{"id":null}', '{"ä":"ü"}'.encode()],
        b'{"schema":{},"payload":{"id":1}}',
    ]
)
changes = st.fixed_dictionaries(
    {"before": rows, "after": rows, "source": sources, "op": st.sampled_from(["c", "u", "r", "d", "t", "m", "", None])},
    optional={"ts_ms": numbers, "transaction": anything, "schema": anything, "payload": anything},
)


@st.composite
def messages(draw: st.DrawFn, ops: str = "cur") -> bytes | None:
    """A message, mostly one that is taken; or one that is broken somewhere."""
    change = draw(changes)
    if draw(st.booleans()):
        change = change | {
            "op": draw(st.sampled_from(ops)),
            "after": {"id": 1} | draw(st.dictionaries(columns, texts)),
        }
    if draw(st.booleans()):
        change = change | {"source": {"ts_ms": FIRST_TS_MS, "schema": "public", "table": "one"}}
    names = draw(st.permutations(sorted(change)))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")]))
    record: Any = {name: change[name] for name in names}
    if draw(st.integers(0, 4)) == 0:
        record = {"schema": draw(anything), "payload": record}
        separators = (",", ":")
    value = json.dumps(record, ensure_ascii=draw(st.booleans()), separators=separators).encode("utf-8", "surrogatepass")
    return draw(broken(value))


@st.composite
def broken(draw: st.DrawFn, value: bytes) -> bytes | None:
    """It, or what a fault makes of it."""
    kind, at = draw(st.integers(0, 9)), draw(st.integers(0, len(value)))
    if kind == 0:
        return None
    if kind == 1:
        return value[:at]
    if kind == 2:
        return value[:at] + draw(st.binary(min_size=1, max_size=3)) + value[at:]
    if kind == 3:
        return (
            value[:at]
            + draw(st.sampled_from([b'"', b"\\", b"{", b"}", b",", b":", b"0", b"-", b"e", b" "]))
            + value[at:]
        )
    if kind == 4:
        return value[:at] + value[at + 1 :]
    return value


@pytest.fixture(scope="module")
def compiled() -> Scanner:
    """As a lane has it."""
    return scanner.loading().result()


def decoded(
    decoder: DebeziumJson, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None
) -> pa.Table:
    keys = [b'{"id":1}'] * len(values) if keys is None else list(keys)
    return decoder.decode([ListBatch(TopicPartition("t", 0), list(range(len(values))), list(keys), list(values))])


def change(after: str, **others: str) -> bytes:
    """An update as text, so that it may be what JSON's writers do not write."""
    parts = {"op": '"u"', "source": f'{{"ts_ms":{FIRST_TS_MS},"table":"one"}}'} | others
    return ",".join(['{"after":' + after, *(f'"{name}":{text}' for name, text in parts.items())]).encode() + b"}"


@settings(max_examples=600, deadline=None)
@given(st.lists(messages(), min_size=1, max_size=6))
@example([change('{"id":1,"id":2}'), change('{"id":1}')])
@example([change('{"id":-0}'), change('{"id":01}'), change('{"id":1.}'), change('{"id":-}'), change('{"id":1e}')])
@example([change('{"id":"\\u00e9\\ud83d"}'), change('{"id":"\\x"}'), change('{"id":"\\u12"}')])
@example(
    [change('{"id":1,}'), change('{"id":1}', op='"u","op":"c"'), change('{"id":1}', op='"uu"'), change('{"id":1}]')]
)
@example(
    [change('{"id":1}', source="[]"), change('{"id":1}', source='{"ts_ms":1,"ts_ms":2}'), change("{}"), change("[]")]
)
@example(
    [change('{"id":tru}'), change('{"id":truee}'), change('{"id":nul}'), change('{"i\\u0064":1}'), b"", b" ", b"{"]
)
@example([change('{"id":1}', before="[" * 70 + "]" * 70), change('{"id":1}', before='{"a":[1,{"b":[]},2.5e+3]}')])
@example(
    [change('{"id":1}', before=f'"{text}"') for text in ("\\ud800", "\\uDfFf", "\\ud83d\\ude00", "\\ud7ff", "\\ue000")]
)
@example([change('{"id":1}'), b'{"schema":{},"payload":{},' + change('{"id":1}')[1:]])
@example([change('{"id":123456789012345678}'), change('{"id":1234567890123456789}'), change('{"id":1E400,"b":0.0}')])
def test_the_rows_are_those_that_python_makes(compiled: Scanner, values: list[bytes | None]) -> None:
    expected = decoded(DebeziumJson(worth_compiling=None), values)
    assert decoded(DebeziumJson(scanner=compiled), values).to_pylist() == expected.to_pylist()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(messages("d"), keys), min_size=1, max_size=6))
@example([(change('{"id":"\xff"}', op='"d"'), b'{"id":1}'), (change("null", op='"d"'), b'{"id":1}')])
def test_a_delete_is_what_python_makes_of_it(compiled: Scanner, pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    keys, values = [key for _, key in pairs], [value for value, _ in pairs]
    expected = decoded(DebeziumJson(worth_compiling=None), values, keys)
    assert decoded(DebeziumJson(scanner=compiled), values, keys).equals(expected)


@pytest.mark.parametrize("kind", Kind)
def test_a_workload_is_taken(compiled: Scanner, kind: Kind) -> None:
    made = list(Workload(kind.shape, 3_000))
    values = [value_of(one, number, BEGIN_MICROS) for number, one in enumerate(made)]
    keys = [key_of(one).encode() for one in made]
    found = compiled.scan([one.encode() if isinstance(one, str) else one for one in values], keys)
    assert found is not None
    assert found.layouts.min() == 0
    batch = ListBatch(
        TopicPartition("t", 0),
        list(range(len(made))),
        [*keys],
        [one.encode() if isinstance(one, str) else one for one in values],
    )
    one, other = DebeziumJson(scanner=compiled), DebeziumJson(worth_compiling=None)
    assert one.decode([batch]).equals(other.decode([batch]))
    batch.keys, batch.values = ([None, *parts[1:-1], b""] for parts in (batch.keys, batch.values))
    block = BlockBatch(batch.tp, np.array(batch.offsets), packed(batch.keys), packed(batch.values))
    for decoder in (DebeziumJson(scanner=compiled), DebeziumJson(worth_compiling=None)):
        assert decoder.decode([block]).equals(other.decode([batch]))


def test_layouts_are_distinguished(compiled: Scanner) -> None:
    """Also where a batch is all layouts, and where they differ in the last of nearly equal names."""
    chance = random.Random(3)
    names = [[f"column_{chance.randrange(3)}_{n}" for n in range(chance.randrange(1, 9))] for _ in range(40)]
    rows = [json.dumps(dict.fromkeys(columns, 1)) for columns in names]
    values = [change(row).replace(b'"one"', b'"one_%d"' % chance.randrange(100)) for row in rows * 100]
    chance.shuffle(values)
    expected = decoded(DebeziumJson(worth_compiling=None), values)
    assert len(expected["layout"].unique()) > 2_000
    assert decoded(DebeziumJson(scanner=compiled), values).equals(expected)


def test_what_is_not_utf8_does_not_disturb_its_neighbours(compiled: Scanner) -> None:
    good, bad = change('{"id":"é"}'), change('{"id":"x"}').replace(b"x", b"\xff")
    for values in ([good, bad, good], [good, good], [bad]):
        expected = decoded(DebeziumJson(worth_compiling=None), values)
        assert decoded(DebeziumJson(scanner=compiled), values).equals(expected)


def test_it_is_loaded_once_there_is_enough_to_decode(compiled: Scanner, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    loading = Future[Scanner]()

    def ask() -> Future[Scanner]:
        asked.append(1)
        return loading

    monkeypatch.setattr(scanner, "loading", ask)
    decoder, values = DebeziumJson(worth_compiling=30), [change('{"id":1}')] * 10
    tables = [decoded(decoder, values) for _ in range(4)]
    assert len(asked) == 2  # with the 30th message and the 40th: it is not there yet
    loading.set_result(compiled)
    tables += [decoded(decoder, values) for _ in range(3)]
    assert len(asked) == 3
    assert all(one.equals(tables[0]) for one in tables)


def test_it_is_loaded_before_messages_that_are_worth_it(compiled: Scanner, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not waited for as long as it is compiled."""
    loading = Future[Scanner]()
    monkeypatch.setattr(scanner, "loading", lambda: loading)
    monkeypatch.setattr(debezium, "LOAD_SECONDS", 0.01)
    decoder, taken = DebeziumJson(worth_compiling=30), list[int]()
    scan = compiled.scan
    monkeypatch.setattr(compiled, "scan", lambda values, keys: taken.append(len(values)) or scan(values, keys))
    decoder.expect(30)
    assert decoded(decoder, [change('{"id":1}')] * 10).num_rows == 10
    assert not taken
    loading.set_result(compiled)
    decoder.expect(30)  # it waits once
    assert decoded(decoder, [change('{"id":1}')] * 10).num_rows == 10
    assert not taken
    decoder = DebeziumJson(worth_compiling=30)
    decoder.expect(29)
    assert decoded(decoder, [change('{"id":1}')] * 5).num_rows == 5
    assert not taken
    decoder.expect(30)
    assert decoded(decoder, [change('{"id":1}')]).num_rows == 1
    assert taken == [1]


def test_it_is_not_loaded_where_the_configuration_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = Future[Scanner]()
    monkeypatch.setattr(scanner, "loading", lambda: loading.set_result(scanner.load()) or loading)
    values = [change('{"id":1}')] * (WORTH_COMPILING + 1)
    source = SourceSettings(bootstrap_servers="127.0.0.1:9092", topics=("t",), compiled=False)
    assert decoded(DebeziumJson.of(source, transactions=False), values).num_rows == len(values)
    assert not loading.done()
    with_it = source.model_copy(update={"compiled": True})
    assert decoded(DebeziumJson.of(with_it, transactions=False), values).num_rows == len(values)
    assert loading.done()


def test_without_it_decoding_goes_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    loading = Future[Scanner]()
    loading.set_exception(OSError("no space left"))
    monkeypatch.setattr(scanner, "loading", lambda: loading)
    decoder = DebeziumJson(worth_compiling=1)
    assert [decoded(decoder, [change('{"id":1}')]).num_rows for _ in range(3)] == [1, 1, 1]
    assert capsys.readouterr().out.count("no space left") == 1


def test_where_the_cache_cannot_be_written_it_is_compiled_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SURELANE_CACHE", str(tmp_path / "file"))
    values = [change(f'{{"id":{number}}}') for number in random.Random(1).sample(range(10**6), 50)]
    found = scanner.load().scan(values, [b""] * len(values))
    assert found is not None
    assert found.lines.to_pylist() == [json.loads(value)["after"]["id"].__str__() + "\n" for value in values]


def test_a_damaged_file_is_replaced_and_loaded_without_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner.load()
    whole = scanner.KERNEL.file().read_bytes()
    monkeypatch.setenv("SURELANE_CACHE", str(tmp_path))
    damaged = scanner.KERNEL.file()
    damaged.parent.mkdir()
    damaged.write_bytes(whole[:-1])
    scanner.load()
    code = "import sys; from app.decode.scan_loader import load; load(); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
