"""Whether the state of queries fits another configuration, as Spark sees it when the query starts."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from app.model.state_store import StateStore
from app.savepoint.compatibility import Compatibility, ItemResult, allow

#: operators whose values may get columns: Spark writes them with their schema
_EVOLVES = "transformWithState"
_REBUILD = "surelane state rebuild makes it anew"


def compare_states(
    old: Mapping[str, Sequence[StateStore]],
    new: Mapping[str, Sequence[StateStore]],
    allowed: Collection[str] = (),
) -> list[ItemResult]:
    """By query: its state in the savepoint, and as the configuration would have it; an item `state:<query>` for each
    of the savepoint. `allowed`: items whose loss is accepted."""
    results = [result for query, before in old.items() for result in _query(query, before, new.get(query))]
    return [allow(one) if one.item in allowed else one for one in results]


def _query(query: str, before: Sequence[StateStore], after: Sequence[StateStore] | None) -> Iterable[ItemResult]:
    item = f"state:{query}"
    if after is None:
        why = "no query of this name computes it any more; its rows and its checkpoint stay"
        yield ItemResult(item=item, compatibility=Compatibility.LOSES, why=why)
        return
    problems = list(_problems(before, after))
    if problems:
        why = f"{'; '.join(problems)}. Another query needs another name, or {_REBUILD}"
        yield ItemResult(item=item, compatibility=Compatibility.INCOMPATIBLE, why=why)
    elif list(before) == list(after):
        yield ItemResult(item=item, compatibility=Compatibility.SAME)
    else:
        why = "values have more columns, which are NULL in what is there"
        yield ItemResult(item=item, compatibility=Compatibility.COMPATIBLE, why=why)


def _problems(before: Sequence[StateStore], after: Sequence[StateStore]) -> Iterable[str]:
    was, now = ({(one.operator, one.store): one for one in stores} for stores in (before, after))
    for place, old in was.items():
        called = f"operator {old.operator} ({old.name}, {old.store})"
        new = now.get(place)
        if new is None or new.name != old.name:
            yield f"{called} is {'gone' if new is None else f'now {new.name}'}"
        elif new.key != old.key:
            yield f"the key of {called} is now {_text(new.key)}, was {_text(old.key)}"
        elif not _fits(old, new):
            yield f"the value of {called} is now {_text(new.value)}, was {_text(old.value)}"
    for place, new in now.items():
        if place not in was and not (new.name.startswith(_EVOLVES) and any(one.name == new.name for one in before)):
            yield f"operator {new.operator} ({new.name}, {new.store}) is new"


def _fits(old: StateStore, new: StateStore) -> bool:
    if old.name.startswith(_EVOLVES):
        return dict(old.value).items() <= dict(new.value).items()
    return [kind for _, kind in old.value] == [kind for _, kind in new.value]


def _text(columns: Sequence[tuple[str, str]]) -> str:
    return "(" + ", ".join(f"{name} {kind}".strip() for name, kind in columns) + ")"
