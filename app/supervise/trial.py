"""One message decoded, and sent through the user's function, in a process of its own.

Where a lane was killed again and again beside one message and nothing says why (SIGKILL from outside, no report by the
supervisor), this tells whether the message does it: then it ends that process, too, and the lane goes on living.

    parent   the message and the function's name as JSON to stdin -> what ended the child; None where it survived
    child    "ready" to stdout, when everything is imported       -> decodes, transforms, ends with status 0
"""

import base64
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from app.config.settings import Align, Decode, Settings
from app.decode.driver import DriverDecoder
from app.kafka.broker import RawMessage
from app.kafka.spans import Batch
from app.model.death import HANGS_ALONE, by_a_message
from app.model.offsets import TopicPartition
from app.transform.function import load, over

_READY = b"ready\n"
#: seconds that Python may take for its imports, besides what one message may take
_START_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class ChildTrial:
    """See `app.lane.reading.Trial`."""

    #: module:function of the user; None: only decoding is tried
    function: str | None
    transactions: bool
    timeout_seconds: float

    def __call__(self, message: RawMessage) -> str | None:
        """What ended the process; None where it survived, or did not even begin."""
        child = [sys.executable, "-m", "app.supervise.trial"]
        try:
            done = subprocess.run(
                child, input=self._task(message), capture_output=True, timeout=self.timeout_seconds, check=False
            )
        except subprocess.TimeoutExpired as hung:
            is_ready = (hung.stdout or b"").startswith(_READY)
            return HANGS_ALONE if is_ready else None
        if not done.stdout.startswith(_READY) or not done.returncode:
            return None
        return by_a_message(done.returncode)

    def _task(self, message: RawMessage) -> bytes:
        task = {
            "function": self.function,
            "transactions": self.transactions,
            "position": list(message.position),
            "key": _encoded(message.key),
            "value": _encoded(message.value),
        }
        return json.dumps(task).encode()


def trial_of(settings: Settings) -> ChildTrial | None:
    """None where Spark's workers decode: what a message does to those is a failed job, not a death of the lane."""
    if settings.decode is not Decode.DRIVER:
        return None
    return ChildTrial(
        function=settings.transform.function if settings.transform else None,
        transactions=settings.epoch.align is Align.SOURCE_TRANSACTION,
        timeout_seconds=_START_SECONDS + settings.guard.message_timeout.total_seconds(),
    )


def _encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _child(task: dict[str, Any]) -> None:
    function = load(task["function"]) if task["function"] else None
    decoder = DriverDecoder(transactions=task["transactions"], worth_compiling=None)
    topic, partition, offset = task["position"]
    batch = Batch(TopicPartition(topic, partition), [offset], [_decoded(task["key"])], [_decoded(task["value"])])
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    rows = decoder.decode([batch])
    if function is not None:
        over(function, rows)


if __name__ == "__main__":
    _child(json.load(sys.stdin))
