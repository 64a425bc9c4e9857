"""What every lane does around its epochs: it has the guard record failures, prunes the ledger, counts an epoch that the
target has already, and logs what has become visible."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from sqlalchemy import Connection

from app.db.sqlstate import may_blame, translated
from app.errors import OutOfMemory, SurelaneError
from app.lane.step_timer import Steps
from app.ledger.store import Ledger
from app.model.counts import Counts
from app.model.epoch import EpochRecord
from app.model.utc import utc_time
from app.poison.guard import Guard

log = structlog.get_logger()

#: epochs between two prunings of the ledger
PRUNE_EVERY_EPOCHS = 1000


class EpochLedger:
    """The ledger of one lane's writer."""

    def __init__(self, name: str, generation: int, connection: Connection, ledger: Ledger) -> None:
        self._name, self._generation, self._connection, self._ledger = name, generation, connection, ledger
        self._until_prune = 0

    def prune(self) -> None:
        """Prune, also at a process' first epoch: one that restarts often may never reach PRUNE_EVERY_EPOCHS."""
        self._until_prune -= 1
        if self._until_prune < 0:
            self._until_prune = PRUNE_EVERY_EPOCHS - 1
            with translated(f"lane {self._name}: pruning the ledger"), self._connection.begin():
                self._ledger.prune(self._connection)

    def skip(self, number: int, last: EpochRecord, consumed: int) -> EpochRecord:
        """Count an epoch that the target has already as duplicate, in a separate row, which is returned. `last`: the
        row before it."""
        made = EpochRecord(
            lane=self._name,
            generation=self._generation,
            epoch=number,
            span=last.span,
            read_end=last.read_end,
            counts=Counts(consumed=consumed, duplicate=consumed),
            last=last.last,
        )
        with translated(f"lane {self._name}: epoch {number}"), self._connection.begin():
            self._ledger.hold(self._connection, self._generation)
            self._ledger.record(self._connection, made)
        return made


@contextmanager
def recorded_failures(guard: Guard, name: str) -> Iterator[None]:
    """Have the guard record a failure inside. `name`: of the lane."""
    try:
        yield
    except SurelaneError as error:
        guard.epoch_failed(error, lost_target=may_blame(error))
        raise
    except MemoryError as error:
        gone = OutOfMemory(f"lane {name}: not enough memory for the epoch")
        guard.epoch_failed(gone, lost_target=False)
        raise gone from error
    except Exception as error:
        guard.unforeseen(error)
        raise


def log_epoch(record: EpochRecord, steps: Steps, **more: object) -> None:
    """Log an epoch that has become visible."""
    staging = {"stage_ms": steps.staging} if steps.staging else {}
    log.info(
        "epoch",
        lane=record.lane,
        epoch=record.epoch,
        generation=record.generation,
        end=record.span.end.nested(),
        **more,
        **{name: count for name, count in record.counts.as_dict().items() if count},
        began=utc_time(steps.began).isoformat(timespec="milliseconds"),
        ms={step: round(seconds * 1000, 1) for step, seconds in steps.seconds.items()},
        **staging,
    )
