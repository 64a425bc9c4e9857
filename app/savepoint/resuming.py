"""Whether a lane may go on from a savepoint: its configuration fits, and the target is at the savepoint's position.

The ledger decides where a lane goes on, so nothing is applied twice, whatever savepoint is named. A savepoint that is
not where the target is would be another target: this module says which.
"""

from collections.abc import Collection

from app.config.settings import Settings
from app.db.sqlstate import translated
from app.errors import Refused
from app.ledger.removed_topics import RemovedTopics
from app.model.offsets import Offsets
from app.savepoint.compatibility import Compatibility, ItemResult, blocking_text, compare
from app.savepoint.fingerprint import items
from app.savepoint.savepoint import Savepoint
from app.snapshot.target_info import looking, pinned, seen


def compared(savepoint: Savepoint, settings: Settings, allowed: Collection[str] = ()) -> list[ItemResult]:
    """The lane, and all items of both configurations. `allowed`: items whose loss is accepted."""
    lane = ItemResult(item="lane", compatibility=Compatibility.SAME)
    if savepoint.lane != settings.lane:
        why = f"it is of lane {savepoint.lane}, the configuration of {settings.lane}: each has a position of its own"
        lane = ItemResult(item="lane", compatibility=Compatibility.INCOMPATIBLE, why=why)
    return [lane, *compare(savepoint.items, items(settings), allowed)]


def check_resumable(savepoint: Savepoint, settings: Settings, allowed: Collection[str] = ()) -> str:
    """Says what was found, in a sentence. `allowed`: items whose loss is accepted. Reads the target, writes nothing.

    Raises Refused, with the ways that lead to the savepoint's position, and Unreachable where the target is away."""
    if found := blocking_text(compared(savepoint, settings, allowed)):
        raise Refused(
            f"the configuration does not go on from savepoint {savepoint.name}: {found}",
            hint=f"surelane savepoint check {savepoint.name} has every item; --allow-non-restored accepts a loss",
        )
    with looking(settings) as connection, translated("savepoint: reading the target"):
        lanes = {one.lane: one for one in seen(connection, settings).lanes}
        cluster_id, topics = pinned(connection, settings)
        removed = RemovedTopics(settings.target.db_schema, settings.lane).find(connection)
    if strangers := _other_log(savepoint, cluster_id, topics):
        raise Refused(
            f"the target's ledger is of another log than savepoint {savepoint.name}: {strangers}",
            hint="offsets of one log mean nothing in another; see ops/runbooks/topic-recreated.md",
        )
    wanted = {one.position.lane: one.position for one in savepoint.lanes}
    at = Offsets.of({tp: offset for one in lanes.values() for tp, offset in one.applied.items()})
    at = removed.only({tp for tp in savepoint.position if tp not in at}).updated(at)
    if lanes.keys() == wanted.keys() and at == savepoint.position:
        return f"the target is at the position of savepoint {savepoint.name}, {at}: the lane goes on from its ledger"
    raise Refused(
        f"the target is not where savepoint {savepoint.name} is, at {savepoint.position}: {_where(savepoint, at)}",
        hint=_ways(savepoint),
    )


def _other_log(savepoint: Savepoint, cluster_id: str | None, topics: dict[str, str]) -> str:
    found = [
        f"topic {name} is {topics[name]}, was {was}"
        for name, was in savepoint.topics.items()
        if topics.get(name, was) != was
    ]
    if None not in (cluster_id, savepoint.cluster_id) and cluster_id != savepoint.cluster_id:
        found.append(f"cluster {cluster_id}, was {savepoint.cluster_id}")
    return ", ".join(found)


def _where(savepoint: Savepoint, at: Offsets) -> str:
    if not at:
        return "the ledger has no row of this lane"
    past, before = savepoint.position.left_to(at), at.left_to(savepoint.position)
    words = [f"{past:,} messages past it"] if past else []
    words += [f"{before:,} messages before it"] if before else []
    return f"it is at {at}, {' and '.join(words) or 'with other partitions'}"


def _ways(savepoint: Savepoint) -> str:
    restore = "the savepoint has no snapshot to restore"
    if savepoint.snapshot is not None:
        name = savepoint.snapshot[0]
        restore = f"restore its snapshot, and name the restored target: surelane snapshot restore {name} --to PLACE"
    goal = ",".join(f"{tp}@{offset}" for tp, offset in savepoint.position.items())
    return (
        "1. go on from the ledger, which applies nothing twice: surelane run; "
        f"2. {restore}; "
        f"3. make the tables of that position anew: surelane replay --from earliest --to {goal} --into SCHEMA"
    )
