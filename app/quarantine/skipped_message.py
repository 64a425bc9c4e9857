"""A message that is not applied: its quarantine entry, its error and its log fields."""

from dataclasses import dataclass

from app.config.redaction import Redaction
from app.epoch.epoch_batch import EpochBatch
from app.errors import BadMessage, Verdict
from app.model.message import RawMessage
from app.model.offsets import Position
from app.model.row_layout import Layout
from app.poison.attempts import AttemptStage, Suspect
from app.quarantine.parked_keys import Key
from app.quarantine.quarantine import Entry, EntryState
from app.quarantine.redacted_text import error_text

#: the reason for an entry without key and value
COMPACTED = "log compaction removed the message after it was read: its position, key and table are all that is kept"


def compacted(position: Position) -> RawMessage:
    """A placeholder for a message that log compaction has removed."""
    return RawMessage(position=position, key=None, value=None, headers=(), timestamp_ms=None)


@dataclass(frozen=True, kw_only=True)
class SkippedMessage:
    """One condemned message."""

    message: RawMessage
    suspect: Suspect
    #: the message's key as decoded; None if it could not be decoded
    key: str | None = None
    layout: Layout | None = None
    #: whether log compaction removed it after it was read
    is_compacted: bool = False

    @classmethod
    def of_row(cls, epoch: EpochBatch, ordinal: int, suspect: Suspect, message: RawMessage | None) -> "SkippedMessage":
        """From a decoded row. `message`: None if log compaction has removed it since."""
        try:
            key = epoch.rows["key"][ordinal].as_py()
        except UnicodeDecodeError:  # of a malformed message
            key = None
        layout = epoch.layout(ordinal)
        return cls(
            message=compacted(epoch.position(ordinal)) if message is None else message,
            suspect=suspect,
            key=key,
            layout=layout if layout.table else None,
            is_compacted=message is None,
        )

    @property
    def table(self) -> tuple[str | None, str | None]:
        """Schema and table at the source; None, None if not known."""
        return (self.layout.schema, self.layout.table) if self.layout else (None, None)

    @property
    def known_key(self) -> Key | None:
        """The key of its row; None if not known."""
        return Key(self.layout.schema, self.layout.table, self.key) if self.layout and self.key is not None else None

    def entry(self, redaction: Redaction) -> Entry:
        """The quarantine entry: the whole message, and the error's text without redacted values."""
        stage = AttemptStage.DECODE if self.suspect.stage is AttemptStage.MESSAGE else self.suspect.stage
        return Entry(
            message=self.message,
            state=EntryState.QUARANTINED,
            schema=self.table[0],
            table=self.table[1],
            key_text=self.key,
            stage=stage,
            verdict=Verdict.POISON,
            error_class=self.suspect.error_class,
            error=self.words(redaction),
            sqlstate=self.suspect.sqlstate,
            attempts=max(self.suspect.attempts, self.suspect.losses),
            alone=self.suspect.alone,
        )

    def error(self, lane: str, redaction: Redaction) -> BadMessage:
        """The error of a lane whose policy is to stop."""
        of_table = f" of table {self.layout.source}" if self.layout else ""
        refused = "is refused by the target" if self.suspect.stage is AttemptStage.APPLY else "cannot be applied"
        return BadMessage(
            f"lane {lane}: message {self.message.position}{of_table} {refused}: {self.words(redaction)}",
            hint="mend it and start again, the lane goes on at this epoch; or write guard.on_skip: continue or park, "
            "which put such messages into quarantine",
        )

    @property
    def reason(self) -> str:
        """A label for counters: the class of the SQLSTATE, else the class of the error."""
        return (self.suspect.sqlstate or "")[:2] or self.suspect.error_class

    def words(self, redaction: Redaction) -> str:
        """The error's text without redacted values."""
        columns = redaction.columns(*self.table)
        if self.is_compacted:  # without the message the values to hide are not known
            return f"{self.suspect.error_class if columns else self.suspect.cause}; {COMPACTED}"
        return error_text(self.suspect.cause, columns, self.message.key, self.message.value)

    def described(self) -> dict[str, object]:
        """Fields for a log line, without values of the message."""
        return {
            "position": str(self.message.position),
            "table": self.layout.source if self.layout else None,
            "stage": self.suspect.stage.value,
            "attempts": self.suspect.attempts,
            "losses": self.suspect.losses,
            "alone": self.suspect.alone,
            "sqlstate": self.suspect.sqlstate,
        }
