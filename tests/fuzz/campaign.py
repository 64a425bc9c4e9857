"""Compiled decoding fed with what it was not made for.

    python -m tests.fuzz.campaign --seconds 600 --seed 7 --folder var/fuzz
    python -m tests.fuzz.campaign --only var/fuzz/input.jsonl      once more with a kept input

Each batch of messages is decoded between guard pages (`guarded.py`), and the rows are compared with those that Python
makes. Messages that reach something new (`watched.py`) are mutated further.

A death by a signal leaves `input.jsonl` in the folder, the batch that was decoded; rows that differ leave it, too, with
the fewest messages that show it, and status 1. `reached.jsonl` has the messages that reached something new.
"""

import argparse
import faulthandler
import json
import mmap
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from app.decode import scan_kernel as scan
from app.decode.debezium import DebeziumJson
from app.decode.scan_loader import KERNEL
from app.kafka.spans import ListBatch
from app.model.offsets import TopicPartition
from tests.fuzz.guarded import GuardedScanner
from tests.fuzz.mutations import Pair, as_line, as_pair, corpus, mutated, seeds
from tests.fuzz.watched import Watched

#: bytes of a batch as it is written down
_MOST_BYTES = 1 << 24
#: what lies behind the messages: nothing that the code finds there may matter
_BEHINDS = [b"\0", b'"', b"\\", b"}", b"0", b" ", b"\xff", b'"}', b",:"]

#: bytes of a value that are left out at once, where fewer may show a difference, too
_LENGTHS = (256, 64, 16, 8, 4, 2, 1)


class Trace:
    """The batch that is being decoded, in a file that outlives this process."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(b"\n" * _MOST_BYTES)
        with path.open("r+b") as file:
            self._pages = mmap.mmap(file.fileno(), _MOST_BYTES)
        self._length = 0

    def note(self, pairs: Sequence[Pair]) -> None:
        """Write it; blank lines follow."""
        text = "".join(as_line(pair) + "\n" for pair in pairs).encode()
        room = max(self._length, len(text))
        self._pages[:room] = text.ljust(room, b"\n")
        self._length = len(text)


class Campaign:
    """Batches, one after the other."""

    def __init__(self, folder: Path, seed: int, more: int = scan.MORE) -> None:
        """`more`: bytes behind the messages; fewer than the code promises to need are for tests of this."""
        folder.mkdir(parents=True, exist_ok=True)
        self._chance, self._trace = random.Random(seed), Trace(folder / "input.jsonl")
        compiled = KERNEL.load()
        self._scanners = [GuardedScanner(compiled, (what * more)[:more]) for what in _BEHINDS]
        self.messages = self.batches = 0

    @property
    def taken(self) -> int:
        """Messages of which compiled code made a row."""
        return sum(scanner.taken for scanner in self._scanners)

    def explore(self, seconds: float, watched: Watched | None) -> list[Pair]:
        """Mutate for so long; gives the messages that reached something new."""
        pool = seeds()
        self._check(pool)
        found, end = [pair for pair in pool if watched and watched.is_new(pair)], time.monotonic() + seconds
        while time.monotonic() < end:
            pairs = self._batch(pool)
            self._check(pairs)
            new = [pair for pair in pairs if watched and watched.is_new(pair)]
            pool += new
            found += new
        return found

    def check_each(self, pairs: Sequence[Pair], step: int = 1) -> None:
        """Each by itself, and cut at each of its bytes, or at one of `step`."""
        for key, value in pairs:
            first = self._chance.randrange(step)
            cut = [(key, (value or b"")[:end]) for end in range(first, len(value or b""), step)]
            cut += [((key or b"")[:end], value) for end in range(first, len(key or b""), step)]
            for one in [(key, value), *cut]:
                self._check([one])

    def check(self, pairs: list[Pair]) -> None:
        """These, as they are."""
        for _ in _BEHINDS:
            self._check(pairs)

    def _batch(self, pool: Sequence[Pair]) -> list[Pair]:
        """Mostly of messages that are UTF-8: one that is not keeps compiled code from all of its batch."""
        pairs = [mutated(self._chance, pool) for _ in range(self._chance.choice((1, 2, 8, 60)))]
        return pairs if self._chance.random() < 0.2 else [pair for pair in pairs if _is_utf8(pair)]

    def _check(self, pairs: list[Pair]) -> None:
        if not pairs:
            return
        self._trace.note(pairs)
        self.messages, self.batches = self.messages + len(pairs), self.batches + 1
        if not self._is_same(pairs):
            pairs = self._fewest(pairs)
            self._trace.note(pairs)
            say(
                differs=[as_line(pair) for pair in pairs],
                rows=_shown(self._rows(pairs)),
                expected=_shown(_by_python(pairs)),
            )
            sys.exit(1)

    def _is_same(self, pairs: Sequence[Pair]) -> bool:
        return self._rows(pairs).equals(_by_python(pairs))

    def _rows(self, pairs: Sequence[Pair]) -> pa.Table:
        return _decoded(DebeziumJson(scanner=self._chance.choice(self._scanners)), pairs)

    def _fewest(self, pairs: list[Pair]) -> list[Pair]:
        """Without messages, and parts of their values, that it does not take."""
        for pair in list(pairs):
            rest = [one for one in pairs if one is not pair]
            if rest and not self._is_same(rest):
                pairs = rest
        for at, (key, value) in enumerate(pairs):
            for length in _LENGTHS:
                for begin in range(len(value or b"") - length, -1, -length):
                    less = (value or b"")[:begin] + (value or b"")[begin + length :]
                    other = [*pairs[:at], (key, less), *pairs[at + 1 :]]
                    if not self._is_same(other):
                        pairs, value = other, less
        return pairs


def say(**facts: object) -> None:
    """Print a line of progress."""
    print(json.dumps(facts), flush=True)


def kept(path: Path) -> list[Pair]:
    """What is in such a file."""
    return [as_pair(line) for line in path.read_text(encoding="ascii").splitlines() if line]


def _is_utf8(pair: Pair) -> bool:
    try:
        return all(part is None or part.decode() is not None for part in pair)
    except UnicodeDecodeError:
        return False


def _by_python(pairs: Sequence[Pair]) -> pa.Table:
    return _decoded(DebeziumJson(worth_compiling=None), pairs)


def _decoded(decoder: DebeziumJson, pairs: Sequence[Pair]) -> pa.Table:
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    return decoder.decode([ListBatch(TopicPartition("t", 0), list(range(len(pairs))), keys, values)])


def _shown(rows: pa.Table) -> list[str]:
    """Texts as bytes: a key may be anything."""
    texts = [name for name in rows.column_names if rows.schema.field(name).type == pa.string()]
    as_bytes = rows.select(texts).cast(pa.schema([(name, pa.binary()) for name in texts])).to_pylist()
    return [repr(one) for one in as_bytes] + [repr(rows.drop_columns(texts).to_pylist())]


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path("var/fuzz"))
    parser.add_argument("--unguided", action="store_true", help="twenty seconds of compiling less")
    parser.add_argument("--step", type=int, default=1, help="cut the corpus at one of so many bytes")
    parser.add_argument("--more", type=int, default=scan.MORE, help="bytes behind the messages")
    parser.add_argument("--only", type=Path, help="a kept input")
    options = parser.parse_args()
    faulthandler.enable()
    pairs = kept(options.only) if options.only else []
    campaign = Campaign(options.folder, options.seed, options.more)
    if options.only:
        campaign.check(pairs)
        return
    campaign.check_each(corpus(), options.step)
    watched = None if options.unguided else Watched()
    found = campaign.explore(options.seconds, watched)
    if watched is not None:
        fewest = watched.fewest(found)
        (options.folder / "reached.jsonl").write_text(
            "".join(as_line(pair) + "\n" for pair in fewest), encoding="ascii"
        )
        campaign.check_each(fewest)
        say(ways=watched.ways, reached=watched.reached, interesting=len(found), kept=len(fewest))
    say(messages=campaign.messages, batches=campaign.batches, taken=campaign.taken)


if __name__ == "__main__":
    _main()
