"""Checks of the archive: whether it can be written, read without gaps, and is private."""

import os
from pathlib import Path

from app.archive.committed_files import Folder
from app.archive.reader import ArchiveReader
from app.cli.doctor_checks.finding import Finding, failed, fault, ok, warn
from app.config.settings import Settings
from app.errors import SurelaneError
from app.model.gid import LANE_NAME
from app.private import exposed

_CHECK = "archive"


def archive(settings: Settings) -> list[Finding]:
    """All checks of the archive; none without one. Does not read the files' contents."""
    config = settings.archive
    if config is None:
        return []
    root = Path(config.path)
    if not root.is_dir():
        return [
            fault(_CHECK, f"there is no folder {root}", "make it, for the lane's user, or mount what belongs there")
        ]
    if not os.access(root, os.W_OK | os.X_OK):
        return [fault(_CHECK, f"{root} is not writable", "give it to the user that the lane runs as")]
    try:
        return [_lane(root, name) for name in _lanes(root, settings.archiving_lane)] or [ok(_CHECK, f"{root}, empty")]
    except (SurelaneError, OSError) as error:
        reported = error if isinstance(error, SurelaneError) else SurelaneError(f"{root}: {error}")
        return [failed(_CHECK, reported, "look at that file system")]


def _lanes(root: Path, lane: str) -> list[str]:
    """Folders of the lane, or of its partitions' lanes."""
    names = [path.name for path in root.iterdir() if path.is_dir()]
    return sorted(name for name in names if name == lane or (name.rpartition(".")[0] == lane and LANE_NAME.match(name)))


def _lane(root: Path, lane: str) -> Finding:
    folder, reader = Folder(root, lane), ArchiveReader(root, lane)
    spans, gaps = reader.spans(), reader.gaps()
    files = folder.files()
    if folder.unreadable:
        hint = "bring back copies of these files: what they held is not there for a replay"
        return warn(_CHECK, "; ".join(sorted(folder.unreadable.values())), hint)
    if gaps:
        hint = "a replay from before them is refused where Kafka has them no longer, either"
        return warn(_CHECK, f"{folder.path} lacks {', '.join(map(str, gaps))}", hint)
    if open_to_others := exposed([folder.path, *(one.path for one in files)]):
        hint = f"chmod -R go= {folder.path}: files that an earlier version made; new ones are for the lane's user alone"
        return warn(_CHECK, f"{len(open_to_others)} of the files in {folder.path}, or itself, are open to others", hint)
    size = sum(one.bytes for one in files)
    held = ", ".join(f"{tp} {known[0][0]} to {known[-1][1] - 1}" for tp, known in sorted(spans.items()))
    return ok(_CHECK, f"{folder.path} holds {held or 'nothing yet'}; {len(files)} files, {size / 1e6:.1f} MB")
