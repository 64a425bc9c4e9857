"""A bare lane with an archive in a process of its own, to be killed: `python -m tests.archive_victim FACTS`.

FACTS is JSON: data_dir and port of the server, database, lane, mode, archive. It applies epoch 0 and 1 of `counted`;
SURELANE_FAILPOINT says where it dies.
"""

import json
import sys
from pathlib import Path

from app.apply.rules import TargetRules
from app.archive.archive_participant import Archive
from app.archive.committed_files import Folder
from app.config.on_skip import OnSkip, SkipPolicy
from app.config.redaction import Redaction
from app.config.settings import CommitMode, TargetSettings
from app.model.message import RawMessage
from app.model.offsets import Position
from app.quarantine.quarantine_writer import Rules
from tests.fix_archive import CLUSTER, Given
from tests.fix_bare_lane import ROUTES, TOPIC, BareLane
from tests.fix_doubt import EPOCH, counted
from tests.fix_target import Target
from tools.devstack import Postgres

EPOCHS = 3


def archive_of(root: Path, lane: str) -> Archive:
    """It keeps what Kafka would have of `counted`."""
    sent = [message for epoch in range(EPOCHS) for message in counted(epoch * EPOCH)]
    raw = [
        RawMessage(
            position=Position(*TOPIC, at), key=one.key, value=one.value, headers=tuple(one.headers), timestamp_ms=at
        )
        for at, one in enumerate(sent)
    ]
    made = Archive(Folder(root, lane), Given(raw).read, 3)
    made.open(CLUSTER, {TOPIC.topic: "id"})
    return made


def lane_of(target: Target, name: str, mode: CommitMode, archive: Archive) -> BareLane:
    """Open, with the archive."""
    rules = Rules(policy=SkipPolicy(OnSkip.STOP, {}), redaction=Redaction(()), max_parked_keys=100, breaker=None)
    settings = TargetSettings.model_validate({"url": "postgresql://here/there", "tables": ROUTES})
    lane = BareLane(
        target, name, TargetRules(settings), rules=rules, mode=mode, guard=target, redact=(), transaction_limit=None
    )
    lane.others = (archive,)
    lane.reopen()
    return lane


if __name__ == "__main__":
    facts = json.loads(sys.argv[1])
    place = Target(Postgres(Path(facts["data_dir"]), port=facts["port"]), facts["database"], facts["lane"])
    victim = lane_of(place, facts["lane"], CommitMode(facts["mode"]), archive_of(Path(facts["archive"]), facts["lane"]))
    for number in range(2):
        victim.apply(counted(number * EPOCH))
