"""What to type next where a lane is not at work."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.config.settings import Settings
from app.errors import HINT_BEGINS


@dataclass(frozen=True, kw_only=True)
class NextCommand:
    """A command, with the options that name the lane."""

    command: str
    why: str
    #: the prepared transaction that it is about
    gid: str | None = None


@dataclass(frozen=True)
class LaneOptions:
    """The options by which a verb finds this lane."""

    #: None: surelane.yaml
    config: Path | None
    #: None: the lane of the configuration
    query: str | None

    @classmethod
    def of(cls, config: Path | None, settings: Settings) -> "LaneOptions":
        return cls(config, None if settings.query is None else settings.lane.partition(".")[2])

    @property
    def words(self) -> list[str]:
        config = [] if self.config is None else ["--config", str(self.config)]
        return [*config, *([] if self.query is None else ["--query", self.query])]

    def command(self, *words: str) -> str:
        return shlex.join(["surelane", *words, *self.words])


def hint_of(error: str | None) -> str | None:
    """What to do, as an error that was raised on purpose says it at its end."""
    _, begins, hint = (error or "").partition(HINT_BEGINS)
    return hint if begins else None


def without_hint(error: str) -> str:
    """The error alone."""
    return error.partition(HINT_BEGINS)[0]


def next_commands(
    options: LaneOptions,
    *,
    state: str,
    last_error: str | None,
    waits_for: str | None,
    in_doubt: Sequence[str],
    table_pauses: Sequence[str],
) -> list[NextCommand]:
    """In the order in which they are typed. Empty: nothing, or the error's hint names it.

    `table_pauses`: tables whose pause is not ended.
    """
    found: list[NextCommand] = []
    if state in ("failed", "stopped"):
        if in_doubt:
            count = "1 prepared transaction holds" if len(in_doubt) == 1 else f"{len(in_doubt)} prepared ones hold"
            why = f"{count} locks until the lane starts, or an answer by hand; the oldest"
            found.append(
                NextCommand(command=options.command("indoubt", "explain", in_doubt[0]), why=why, gid=in_doubt[0])
            )
        if hint_of(last_error) is None:
            found.append(NextCommand(command=options.command("run"), why="goes on where the target's ledger ends"))
    elif state == "paused":
        found.append(NextCommand(command=options.command("resume"), why="ends the pause"))
    elif state == "waiting":
        why = f"goes on by itself; it waits for {waits_for or 'something that its ledger does not name'}"
        found.append(NextCommand(command=options.command("doctor"), why=why))
    tables = [options.command("resume", "--table", table) for table in table_pauses]
    return [*found, *(NextCommand(command=one, why="ends the table's pause") for one in tables)]
