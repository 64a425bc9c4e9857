"""Messages that are nearly Debezium's: what an attacker of the decoder writes.

Some mutations change bytes, whatever they mean; some change a message's tree, and write it as JSON again, which other
tools would not: names twice, numbers of any length, broken escapes, white space anywhere.
"""

import json
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.messages import FIRST_TS_MS, INT, TEXT, Debezium, Table
from tests.record import FOLDER
from tools.testbed.tables import BEGIN_MICROS
from tools.testbed.workload import Kind, Workload, key_of, value_of

#: key and value of a message
Pair = tuple[bytes | None, bytes | None]

#: inputs that reached something new in longer runs, and those that once showed a fault
CORPUS = Path(__file__).with_name("corpus.jsonl")
#: bytes of a message that is mutated further
MOST_BYTES = 4_000
_TOKENS = [
    *[b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\t", b"\r\n", b"\0", b"\x1f", b"\x7f", b"\x80", b"\xff"],
    *[b"true", b"false", b"null", b"tru", b"nul", b"-", b"+", b".", b"0", b"-0", b"e", b"E+", b"1e5", b"01", b"NaN"],
    *[b"\\u0000", b"\\u00e9", b"\\ud83d", b"\\ud83d\\ude00", b"\\u12", b"\\x", b"\\n", b"\\t", b"\\\\", b'\\"', b"\\/"],
    *["é".encode(), "😀".encode(), b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xef\xbb\xbf"],
    *[b'"op":"u",', b'"op":"d",', b'"after":null,', b'"after":{"id":1},', b'"source":{"ts_ms":1},', b'"source":null,'],
    *[b'"ts_ms":1,', b'"sequence":"\\n",', b'"sequence":null,', b'"schema":"",', b'"table":null,', b'"before":{}'],
    *[b"9" * 17, b"9" * 18, b"9" * 19, b"9" * 40, b"1." + b"0" * 30, b'{"schema":', b',"payload":', b"[[[", b'{"a":'],
]
_TEXTS = [
    b"",
    b"\\n",
    b"\\\\N",
    b"\\t\\r\\b\\f\\/",
    b"\\u0000",
    b"\\ud800",
    "äöü€😀".encode(),
    b"x" * 9,
    b"\xff",
    b"\x7f",
]
_NUMBERS = [b"0", b"-0", b"-0.0", b"1E400", b"1" * 18, b"-" + b"1" * 17, b"1" * 19, b"1e", b"1.", b"00", b"0.1e-7"]
_SCALARS = [*_NUMBERS, b"true", b"false", b"null", *[b'"' + text + b'"' for text in _TEXTS]]
_NAMES = [
    b"op",
    b"after",
    b"source",
    b"before",
    b"ts_ms",
    b"schema",
    b"table",
    b"sequence",
    b"payload",
    b"id",
    b"",
    b"a" * 8,
]


class Object(list[tuple[bytes, Any]]):
    """A JSON object with its names in order, twice where they are twice; a value is one of them, a list, or bytes."""


def seeds() -> list[Pair]:
    """Messages of every sort that there is, and what longer runs have found."""
    made = [pair for envelope in (False, True) for pair in _made(Debezium(envelope=envelope))]
    for kind in Kind:
        for number, one in enumerate(Workload(kind.shape, 4)):
            value = value_of(one, number, BEGIN_MICROS)
            made.append((key_of(one).encode(), value.encode() if isinstance(value, str) else value))
    return [*made, *_recorded(), *corpus()]


def corpus() -> list[Pair]:
    """Bytes are written as characters of the same numbers."""
    lines = CORPUS.read_text(encoding="ascii").splitlines() if CORPUS.exists() else []
    return [as_pair(line) for line in lines]


def as_line(pair: Pair) -> str:
    """A line of the corpus."""
    return json.dumps([None if part is None else part.decode("latin-1") for part in pair])


def as_pair(line: str) -> Pair:
    """What `as_line` wrote."""
    key, value = (None if part is None else part.encode("latin-1") for part in json.loads(line))
    return key, value


def mutated(chance: random.Random, pool: Sequence[Pair]) -> Pair:
    """One of them, changed; a few of them as they are."""
    key, value = chance.choice(pool)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3, 8))):
        if chance.random() < 0.2:
            key = _other(chance, key, pool, 0)
        else:
            value = _other(chance, value, pool, 1)
    return key, value


def _other(chance: random.Random, part: bytes | None, pool: Sequence[Pair], which: int) -> bytes | None:
    if part is None or chance.random() < 0.01:
        return chance.choice((None, b"", b" ", b"{", b"{}", b"null", chance.choice(pool)[which]))
    if chance.random() < 0.4 and (tree := parsed(part)) is not None:
        with suppress(RecursionError):  # mutations have nested it deeper than Python goes
            return written(chance, _other_tree(chance, tree))[: 2 * MOST_BYTES]
    return chance.choice(_OF_BYTES)(chance, part, chance.choice(pool)[which] or b"")[: 2 * MOST_BYTES]


def _place(chance: random.Random, part: bytes) -> int:
    return chance.randint(0, len(part))


def _flipped(chance: random.Random, part: bytes, _: bytes) -> bytes:
    at = _place(chance, part)
    return part[:at] + bytes(byte ^ 1 << chance.randrange(8) for byte in part[at : at + 1]) + part[at + 1 :]


def _with_token(chance: random.Random, part: bytes, _: bytes) -> bytes:
    """Inserted, or in the place of as many bytes."""
    at, token = _place(chance, part), chance.choice(_TOKENS)
    return part[:at] + token + part[at + chance.choice((0, 1, len(token))) :]


def _cut(chance: random.Random, part: bytes, _: bytes) -> bytes:
    return part[: _place(chance, part)]


def _without(chance: random.Random, part: bytes, _: bytes) -> bytes:
    at = _place(chance, part)
    return part[:at] + part[at + chance.choice((1, 2, 7, 8, 9, 40)) :]


def _repeated(chance: random.Random, part: bytes, _: bytes) -> bytes:
    at, length = _place(chance, part), chance.choice((1, 2, 7, 8, 9, 40))
    return part[:at] + part[at : at + length] * chance.choice((2, 3, 8, 100)) + part[at + length :]


def _spliced(chance: random.Random, part: bytes, other: bytes) -> bytes:
    return part[: _place(chance, part)] + other[_place(chance, other) :]


def _exchanged(chance: random.Random, part: bytes, _: bytes) -> bytes:
    first, second, third = sorted(_place(chance, part) for _ in range(3))
    return part[:first] + part[second:third] + part[first:second] + part[third:]


_OF_BYTES: list[Callable[[random.Random, bytes, bytes], bytes]] = [
    *[_flipped, _with_token, _with_token, _with_token, _cut, _without, _repeated, _spliced, _exchanged]
]


def parsed(part: bytes) -> Any:
    """Its tree, scalars as they are written; None for what is no object."""
    try:
        tree = json.loads(
            part.decode(),
            object_pairs_hook=lambda pairs: Object((_text(name)[1:-1], _leaf(value)) for name, value in pairs),
            parse_int=str.encode,
            parse_float=str.encode,
        )
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, Object) else None


def _text(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _leaf(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list) and not isinstance(value, Object):
        return [_leaf(one) for one in value]
    return json.dumps(value).encode() if value is None or isinstance(value, bool) else value


def written(chance: random.Random, tree: Any) -> bytes:
    """As JSON, mostly without white space."""
    space = chance.choice((b"", b"", b"", b" ", b"\n\t", b" " * 9))

    def text(value: Any) -> bytes:
        if isinstance(value, Object):
            members = (b'"' + name + b'"' + space + b":" + space + text(one) for name, one in value)
            return b"{" + space + (space + b"," + space).join(members) + space + b"}"
        return b"[" + b",".join(map(text, value)) + b"]" if isinstance(value, list) else value

    return text(tree)


def _objects(tree: Any) -> list[Object]:
    if isinstance(tree, Object):
        return [tree, *(one for _, value in tree for one in _objects(value))]
    return [one for value in tree for one in _objects(value)] if isinstance(tree, list) else []


def _other_tree(chance: random.Random, tree: Object) -> Object:
    node = chance.choice(_objects(tree)[:8])
    at = chance.randrange(len(node)) if node else 0
    match chance.randrange(8):
        case 0 if node:  # twice
            node.insert(chance.randint(0, len(node)), node[at])
        case 1:
            chance.shuffle(node)
        case 2 if node:
            del node[at]
        case 3 if node:
            node[at] = (node[at][0], chance.choice(_SCALARS))
        case 4 if node:
            node[at] = (chance.choice(_NAMES), node[at][1])
        case 5 if node:
            node[at] = (node[at][0], _deep(chance, node[at][1]))
        case 6:  # very many columns
            count = chance.choice((2, 7, 8, 9, 200))
            node.extend((b"c%d" % number, chance.choice(_SCALARS)) for number in range(count))
        case _:
            node.insert(at, (chance.choice(_NAMES), chance.choice([*_SCALARS, Object(), []])))
    return tree


def _deep(chance: random.Random, value: Any) -> bytes:
    """Within as many lists and objects as compiled code takes, and more."""
    depth, is_list = chance.choice((1, 2, 59, 60, 61, 62, 63, 64, 65, 300)), chance.random() < 0.5
    inner = written(chance, value)
    return b"[" * depth + inner + b"]" * depth if is_list else b'{"a":' * depth + inner + b"}" * depth


def _made(debezium: Debezium) -> list[Pair]:
    table = Table("one", {"id": INT, "v": TEXT})
    texts = ["plain", "", "tab\tnew\nline\\", "ünï€😀", None]
    made = [debezium.create(table, {"id": number, "v": text}) for number, text in enumerate(texts)]
    made += [debezium.delete(table, {"id": 1, "v": "x"}), debezium.tombstone(table, {"id": 1})]
    return [(one.key, one.value) for one in made] + [
        (b'{"id":1}', b'{"after":{"id":1},"op":"u","source":{"ts_ms":%d,"sequence":"[\\"1\\"]"}}' % FIRST_TS_MS),
        (b"{}", b'{"op":"d","source":{"ts_ms":1}}'),
    ]


def _recorded() -> list[Pair]:
    messages = [one for path in sorted(FOLDER.glob("*.json")) for one in json.loads(path.read_bytes())["messages"]]
    pairs = [(key and key.encode(), value and value.encode()) for key, value, *_ in messages]
    return [(key, value) for key, value in pairs if len(value or b"") < MOST_BYTES]
