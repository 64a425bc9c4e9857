"""Checks of the target's snapshots, if any are configured. Faults are warnings, since the lane runs without them."""

import datetime
import math
from collections.abc import Iterator
from pathlib import Path

from app.cli.doctor_checks.finding import Finding, ok, warn
from app.config.settings import Settings
from app.errors import SurelaneError
from app.kafka.broker import Broker
from app.kafka.replayable import Replayable, replayable
from app.recover.archive_reach import archive_reach
from app.snapshot.snapshot_directory import Directory, Listing, StoredSnapshot

_CHECK = "snapshots"
#: age from which on a snapshot is too old: everything after it has to be replayed
OLD_SECONDS = 7 * 24 * 3600.0
#: time to notice that a snapshot is needed, to restore it, and to replay
HEADROOM_SECONDS = 24 * 3600.0
_HOUR, _DAY = 3600.0, 86_400.0
_ADVICE = "surelane snapshot create --keep 7, by a timer"


def snapshots(settings: Settings) -> list[Finding]:
    """All checks of the snapshots; none where the configuration has no `snapshots` and there are none."""
    directory = Directory(Path(settings.snapshots.directory))
    if not settings.snapshots.model_fields_set and not directory.root.is_dir():
        return []
    try:
        listing = directory.listing()
    except OSError as error:
        return [warn(_CHECK, f"{directory.root} cannot be read: {error}", "let this user read snapshots.directory")]
    return [*_broken(listing), _newest(settings, listing)]


def _broken(listing: Listing) -> Iterator[Finding]:
    for name, why in listing.broken:
        yield warn(_CHECK, f"{name} cannot be used: {why}", f"surelane snapshot delete {name}, and take another one")


def _newest(settings: Settings, listing: Listing) -> Finding:
    mine = [one for one in listing.snapshots if one.manifest.lane == settings.lane]
    if not mine:
        return warn(_CHECK, f"there is none of lane {settings.lane} in {settings.snapshots.directory}", _ADVICE)
    newest = mine[-1]
    try:
        with Broker(settings.source) as broker:
            position = newest.manifest.seen.position
            seen = replayable(broker, position, archive_reach(settings, position))
    except SurelaneError as error:
        name = newest.manifest.name
        return warn(_CHECK, f"whether {name} leads back is not known: {error.message}", error.hint or "surelane status")
    return _judged(newest, seen, datetime.datetime.now(datetime.UTC))


def _judged(newest: StoredSnapshot, seen: Replayable, now: datetime.datetime) -> Finding:
    name, age = newest.manifest.name, (now - newest.manifest.made_at).total_seconds()
    old = f"the newest, {name}, is {_time(age)} old"
    if seen.gone:
        gone = ", ".join(f"{tp} begins at {low}" for tp, low in seen.gone.items())
        message = f"{old} and does not lead back any more: Kafka has forgotten what came after it ({gone})"
        return warn(_CHECK, message, f"take another one now, and oftener than Kafka forgets: {_ADVICE}")
    if seen.headroom_seconds < HEADROOM_SECONDS:
        left = f"{old}; Kafka keeps what came after it for {_time(seen.headroom_seconds)} more"
        return warn(_CHECK, left, f"{_ADVICE}; or let Kafka keep messages longer (retention.ms)")
    if age > OLD_SECONDS:
        return warn(_CHECK, f"{old}: up to {seen.messages:,} messages would be replayed", _ADVICE)
    kept = f"for {_time(seen.headroom_seconds)} more" if math.isfinite(seen.headroom_seconds) else "as of now"
    return ok(_CHECK, f"{old}; Kafka keeps what came after it {kept}")


def _time(seconds: float) -> str:
    return f"{seconds / _DAY:.1f} days" if seconds >= 2 * _DAY else f"{seconds / _HOUR:.1f} h"
