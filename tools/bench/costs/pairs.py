"""Drains in pairs, with something and without it: machines drift, so what is compared is of one pair."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tools.bench.report import say


def in_turn(pairs: int, with_it: str, without: str, what: str) -> Iterator[tuple[int, str]]:
    """Number of the pair and mode of each drain; the first mode alternates. `what`: is drained, for the progress."""
    for pair in range(1, pairs + 1):
        for mode in (with_it, without) if pair % 2 else (without, with_it):
            say(f"pair {pair} of {pairs}, {mode}: {what}")
            yield pair, mode


def ratios(done: Sequence[Mapping[str, Any]], name: str, with_it: str, without: str) -> list[float]:
    """Ratio of with to without, for each pair with two correct results that have the field; 1: no cost."""
    sides = {(one["pair"], one["mode"]): one.get(name) for one in done if one["correct"]}
    pairs = dict.fromkeys(one["pair"] for one in done)
    both = [(sides.get((pair, with_it)), sides.get((pair, without))) for pair in pairs]
    return [on / off for on, off in both if on and off]
