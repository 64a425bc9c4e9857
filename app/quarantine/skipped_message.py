"""A message that is not applied: what is known of it, for the quarantine and for people."""

from dataclasses import dataclass

from app.apply.epoch_batch import EpochBatch
from app.config.redaction import Redaction
from app.errors import BadMessage, Verdict
from app.model.message import RawMessage
from app.model.offsets import Position
from app.model.rows import Layout
from app.poison.attempts import AttemptStage, Suspect
from app.quarantine.parked_keys import Key
from app.quarantine.quarantine import Entry, EntryState
from app.quarantine.redacted_text import error_text

#: why an entry has neither key nor value
COMPACTED = "log compaction removed the message after it was read: its position, key and table are all that is kept"


def compacted(position: Position) -> RawMessage:
    """In place of a message that is no more."""
    return RawMessage(position=position, key=None, value=None, headers=(), timestamp_ms=None)


@dataclass(frozen=True, kw_only=True)
class SkippedMessage:
    """One condemned message."""

    message: RawMessage
    suspect: Suspect
    #: the message's key as decoded; None when it could not be
    key: str | None = None
    layout: Layout | None = None
    #: log compaction removed it after it was read
    is_compacted: bool = False

    @classmethod
    def of_row(cls, epoch: EpochBatch, ordinal: int, suspect: Suspect, message: RawMessage | None) -> "SkippedMessage":
        """A decoded message; None: it was there when it was decoded, and is no more."""
        try:
            key = epoch.rows["key"][ordinal].as_py()
        except UnicodeDecodeError:  # a malformed message's
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
        """Source schema and table, None when they are not known."""
        return (self.layout.schema, self.layout.table) if self.layout else (None, None)

    @property
    def known_key(self) -> Key | None:
        """Which row it is about, if that is known."""
        return Key(self.layout.schema, self.layout.table, self.key) if self.layout and self.key is not None else None

    def entry(self, redaction: Redaction) -> Entry:
        """For the quarantine: the message whole, the words of the error without redacted values."""
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
        """For a lane that stops instead of skipping."""
        of_table = f" of table {self.layout.source}" if self.layout else ""
        refused = "is refused by the target" if self.suspect.stage is AttemptStage.APPLY else "cannot be applied"
        return BadMessage(
            f"lane {lane}: message {self.message.position}{of_table} {refused}: {self.words(redaction)}",
            hint="mend it and start again, the lane goes on at this epoch; or write guard.on_skip: continue or park, "
            "which put such messages into quarantine",
        )

    @property
    def reason(self) -> str:
        """To count by: the class of its SQLSTATE, else of the error."""
        return (self.suspect.sqlstate or "")[:2] or self.suspect.error_class

    def words(self, redaction: Redaction) -> str:
        """The error without redacted values."""
        columns = redaction.columns(*self.table)
        if self.is_compacted:  # which values are to be hidden is not known any more
            return f"{self.suspect.error_class if columns else self.suspect.cause}; {COMPACTED}"
        return error_text(self.suspect.cause, columns, self.message.key, self.message.value)

    def described(self) -> dict[str, object]:
        """For a log line; no value of the message is in it."""
        return {
            "position": str(self.message.position),
            "table": self.layout.source if self.layout else None,
            "stage": self.suspect.stage.value,
            "attempts": self.suspect.attempts,
            "losses": self.suspect.losses,
            "alone": self.suspect.alone,
            "sqlstate": self.suspect.sqlstate,
        }
