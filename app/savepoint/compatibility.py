"""Whether a lane may go on from a savepoint with another configuration: item by item, before anything is touched."""

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_STAY = "earlier rows stay as they were made: `surelane replay` makes them anew"


class Compatibility(enum.StrEnum):
    """Of one item."""

    SAME = "same"
    #: the lane goes on with it, from the savepoint's position on
    COMPATIBLE = "compatible"
    #: something would be lost; `--allow-non-restored` accepts it
    LOSES = "loses"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, kw_only=True)
class ItemResult:
    """One item of a configuration, or one entry of it (`routes:public.orders`)."""

    item: str
    compatibility: Compatibility
    #: what it means, and for LOSES what would be lost
    why: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the lane may not go on with it."""
        return self.compatibility in (Compatibility.LOSES, Compatibility.INCOMPATIBLE)


def compare(old: Mapping[str, Any], new: Mapping[str, Any], allowed: Collection[str] = ()) -> list[ItemResult]:
    """All items of both, in the order of `new`. `allowed`: items whose loss is accepted."""
    found: list[ItemResult] = []
    for item in [*new, *(gone for gone in old if gone not in new)]:
        before, after = old.get(item), new.get(item)
        if before == after:
            found.append(ItemResult(item=item, compatibility=Compatibility.SAME))
        else:
            found += _RULES.get(item, _unknown)(item, before, after)
    return [allow(one) if one.item in allowed else one for one in found]


def blocking_text(results: Iterable[ItemResult]) -> str:
    """The items that do not fit, in a sentence; "" for none."""
    return "; ".join(f"{one.item}: {one.why}" for one in results if one.blocks)


def allow(one: ItemResult) -> ItemResult:
    """The item with its loss accepted; nothing else can be."""
    if one.compatibility is not Compatibility.LOSES:
        return one
    return ItemResult(item=one.item, compatibility=Compatibility.COMPATIBLE, why=f"accepted: {one.why}")


def _change(why: str, compatibility: Compatibility = Compatibility.COMPATIBLE) -> "_Rule":
    def rule(item: str, before: Any, after: Any) -> Iterable[ItemResult]:
        yield ItemResult(item=item, compatibility=compatibility, why=why.format(before=before, after=after))

    return rule


def _unknown(item: str, before: Any, after: Any) -> Iterable[ItemResult]:
    why = f"{before!r} became {after!r}, and this version does not know the item"
    yield ItemResult(item=item, compatibility=Compatibility.INCOMPATIBLE, why=why)


def _topics(item: str, before: Any, after: Any) -> Iterable[ItemResult]:
    if isinstance(before, str) or isinstance(after, str):
        why = f"{before} became {after}: which topics a pattern leaves out is not known before Kafka is asked"
        yield ItemResult(item=item, compatibility=Compatibility.INCOMPATIBLE, why=why)
        return
    for name in sorted({*after} - {*before}):
        why = "is read from its first message on, or from the offset that source.start names for it"
        yield ItemResult(item=f"{item}:{name}", compatibility=Compatibility.COMPATIBLE, why=why)
    stays = {*before} & {*after}
    for name in sorted({*before} - {*after}):
        why = "is not read any more; its position is kept, and it goes on there when it is added again"
        compatibility = Compatibility.LOSES if stays else Compatibility.INCOMPATIBLE
        if not stays:
            why = "no topic that the ledger has a position of stays; a new lane name begins without them"
        yield ItemResult(item=f"{item}:{name}", compatibility=compatibility, why=why)


def _routes(item: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[ItemResult]:
    for source in [*after, *(gone for gone in before if gone not in after)]:
        name, old, new = f"{item}:{source}", before.get(source), after.get(source)
        if old == new:
            continue
        if old is None:
            why = f"changes go to {new} from the savepoint's position on"
            yield ItemResult(item=name, compatibility=Compatibility.COMPATIBLE, why=why)
        elif new is None:
            why = f"{old} gets no changes of {source} any more, and keeps its rows"
            yield ItemResult(item=name, compatibility=Compatibility.LOSES, why=why)
        else:
            why = f"{new} gets the changes from the savepoint's position on; earlier rows stay in {old}"
            yield ItemResult(item=name, compatibility=Compatibility.LOSES, why=why)


def _entries(what: str) -> "_Rule":
    def rule(item: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[ItemResult]:
        for name in [*after, *(gone for gone in before if gone not in after)]:
            if before.get(name) != after.get(name):
                yield ItemResult(
                    item=f"{item}:{name}",
                    compatibility=Compatibility.LOSES,
                    why=f"{what} of {name} change; {_STAY}",
                )

    return rule


_Rule = Callable[[str, Any, Any], Iterable[ItemResult]]
_RULES: Mapping[str, _Rule] = {
    "topics": _topics,
    "order": _change("{before} became {after}: it decides which lanes there are", Compatibility.INCOMPATIBLE),
    "format": _change(
        "{before} became {after}: the messages of the topic are of one format", Compatibility.INCOMPATIBLE
    ),
    "schema": _change("{before} became {after}: the ledger is in the old one", Compatibility.INCOMPATIBLE),
    "align": _change("epochs end by {after} from the next one on"),
    "commit": _change("epochs end by {after} from the next one on; the start settles what is prepared"),
    "unknown_table": _change("{after} from the savepoint's position on"),
    "unknown_column": _change("{after} from the savepoint's position on"),
    "on_truncate": _change("{after} from the savepoint's position on"),
    "routes": _routes,
    "columns": _entries("columns"),
    "keys": _entries("key columns"),
    "sql": _entries("rows"),
    "transform": _change(
        "{before} became {after}; " + _STAY,
        Compatibility.LOSES,
    ),
}
