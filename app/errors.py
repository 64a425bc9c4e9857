"""Every error Surelane raises on purpose, each with one verdict, one exit status and a hint.

The class docstring is the default message. `verdict` is what the lane does about the error, `exit_status` the status of
a process that gives up, `hint` what the operator types next. An error is logged once, at the top.
"""

import enum
from collections.abc import Sequence
from typing import ClassVar, Self


class Verdict(enum.Enum):
    """What a lane does after a failure."""

    RETRY = "retry"  #: the environment failed (connection, deadlock, restart): back off and try the same epoch again
    STOP = "stop"  #: an operator has to act first; no message is skipped, and no attempt counts against one
    POISON = "poison"  #: one message cannot be applied, however often it is tried


class ExitStatus(enum.IntEnum):
    """Exit status of the `surelane` command, one for each cause. 2 is the command line's own (usage)."""

    OK = 0
    BUG = 1  #: an unexpected error; please report it
    USAGE = 2  #: the command line was wrong
    CONFIG = 3  #: the configuration has faults; all are printed
    ENVIRONMENT = 4  #: Java, jars, Kafka or Postgres are missing or unreachable
    BAD_MESSAGE = 5  #: a message cannot be applied
    DIVERGED = 6  #: target and checkpoint contradict each other; the recovery plan is printed
    FENCED = 7  #: another writer took the lane over
    TOPIC_CHANGED = 8  #: topic or cluster is not the one that the lane is pinned to
    TARGET = 9  #: the target database refuses: missing table, key, column, privilege, migration
    FAULTS_FOUND = 10  #: doctor found at least one fault
    ACCOUNTING = 11  #: the counts of an epoch do not add up: a bug; the lane stops before it commits the epoch
    CRASH_LOOP = 12  #: the worker died and is not restarted; its cause of death is printed
    REFUSED = 13  #: the request is not allowed in this state; nothing was changed
    BREAKER = 14  #: too many messages would go into quarantine; nothing of the epoch was applied
    TRANSACTION = 15  #: a source transaction is longer than allowed, or too many messages wait for another topic
    DIFFERENT = 16  #: verify found a difference between target and the other database, or a damaged snapshot
    UNATTRIBUTED = 17  #: an epoch fails and no single message is the cause; none of its messages was applied or skipped


#: before the hint, where an error is one text
HINT_BEGINS = "\n  what to do: "


class SurelaneError(Exception):
    """Something went wrong."""

    verdict: ClassVar[Verdict] = Verdict.STOP
    exit_status: ClassVar[ExitStatus] = ExitStatus.BUG

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        self.message = message or (self.__doc__ or "").strip()
        self.hint = hint
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message}{HINT_BEGINS}{self.hint}" if self.hint else self.message


#: section of a runbook page
_STOPPED = "Stopped with status 6"


def by_the_page(who: str, page: str, section: str, steps: Sequence[tuple[str, str]]) -> str:
    """A hint: the commands of a runbook section, each with its reason."""
    width = max(len(command) for command, _ in steps)
    lines = "".join(f"\n     {command:<{width}}   # {why}" for command, why in steps)
    return f'{who}, as in ops/runbooks/{page}, "{section}":{lines}'


class ConfigInvalid(SurelaneError):
    """The configuration has faults."""

    exit_status = ExitStatus.CONFIG


class EnvironmentMissing(SurelaneError):
    """Something the service needs is not on this machine or cannot be reached."""

    exit_status = ExitStatus.ENVIRONMENT


class OffsetMissing(EnvironmentMissing):
    """Kafka does not have an offset, or not any more."""


class Unreachable(SurelaneError):
    """A server did not answer or went away in the middle."""

    verdict = Verdict.RETRY
    exit_status = ExitStatus.ENVIRONMENT


class Contended(Unreachable):
    """Other sessions of the server were in the way."""


class ServerExhausted(Unreachable):
    """A server has no memory left for what is asked of it: tried again for some minutes, not for ever."""

    exit_status = ExitStatus.TARGET


class BadMessage(SurelaneError):
    """A message cannot be applied."""

    verdict = Verdict.POISON
    exit_status = ExitStatus.BAD_MESSAGE


class Diverged(SurelaneError):
    """Target and checkpoint do not fit together."""

    exit_status = ExitStatus.DIVERGED

    @classmethod
    def target_behind(cls, problem: str, *, lane: str, position: object, gid: object = None) -> Self:
        """The target is behind the checkpoint. `position`: end of its ledger; `gid`: the lost prepared transaction."""
        steps = [
            ("surelane status", "is it the right database?"),
            ("surelane recover --from-ledger --dry-run", f"from {position}; has Kafka still everything?"),
            ("surelane recover --from-ledger", "forgets the checkpoint, keeps the ledger"),
            ("surelane run", "replays from there"),
        ]
        if gid is not None:
            steps.insert(0, (f"surelane indoubt explain {gid}", "what became of it"))
        return cls(problem, hint=by_the_page(f"lane {lane}", "restore-and-replay.md", _STOPPED, steps))

    @classmethod
    def checkpoint_damaged(cls, problem: str, *, lane: str | None) -> Self:
        """Entries of the checkpoint are missing or unreadable."""
        steps = [
            ("surelane recover --from-ledger --dry-run", "from where, and has Kafka still everything?"),
            ("surelane recover --from-ledger", "the next start puts it aside and begins a new one"),
            ("surelane run", "goes on at the ledger's end"),
        ]
        return cls(
            problem, hint=by_the_page(f"lane {lane}" if lane else "the lane", "checkpoint-lost.md", _STOPPED, steps)
        )

    @classmethod
    def state_lost(cls, problem: str, *, lane: str) -> Self:
        """The state of a query, which is in its checkpoint, is not that of its table. `lane`: `<lane>.<query>`."""
        query = lane.rpartition(".")[2]
        steps = [
            (f"surelane status --query {query}", "is it the right database, and the right checkpoint?"),
            (
                f"surelane state rebuild {query}",
                "forgets state and position; the rows stay until it has new ones",
            ),
            (f"surelane run --query {query}", "computes the result anew from the messages that Kafka has"),
        ]
        return cls(problem, hint=by_the_page(f"lane {lane}", "query-state-lost.md", _STOPPED, steps))


class MessagesGone(Diverged):
    """Kafka no longer has messages that the lane has yet to read."""

    @classmethod
    def of(cls, missing: str, *, lane: str | None = None) -> Self:
        """`missing`: which messages, as far as the caller knows; `lane`: None where the caller does not know it."""
        steps = [
            ("surelane recover gap", "what exactly is missing, and what is left to do"),
            ("surelane snapshot list", "is one of them ahead of the target, where Kafka has everything?"),
            ('surelane recover gap --accept --reason "<why>"', "goes on behind it; the target stays without"),
            ("surelane run", "from there"),
        ]
        who = f"lane {lane}" if lane else "the lane"
        return cls(
            f"{who}: Kafka no longer has messages that it has yet to read: {missing}",
            hint=by_the_page(who, "retention-exceeded.md", _STOPPED, steps),
        )


class LogTruncated(Diverged):
    """Kafka lost messages that were applied, and gives their offsets to others."""

    #: which offsets have another message now
    where = ""

    @classmethod
    def of(cls, where: str, *, lane: str | None = None) -> Self:
        """`where`: which offsets, as far as the caller knows; `lane`: None where the caller does not know it."""
        steps = [
            ("surelane recover gap", "which offsets mean other messages now"),
            ("surelane snapshot list", "is one of them from before that, to be restored in place of this target?"),
            ('surelane recover gap --accept --reason "<why>"', "goes on; the target keeps what Kafka has lost"),
            ("surelane run", "from there"),
        ]
        who = f"lane {lane}" if lane else "the lane"
        error = cls(
            f"{who}: Kafka lost the end of a log that was applied, and wrote it anew: {where}",
            hint=by_the_page(who, "log-truncated.md", _STOPPED, steps),
        )
        error.where = where
        return error


class Fenced(SurelaneError):
    """Another writer took this lane over."""

    exit_status = ExitStatus.FENCED

    @classmethod
    def out(cls, problem: str) -> Self:
        """A newer writer has the lane."""
        return cls(
            problem,
            hint="another `surelane run` took the lane over: `surelane status` says where it runs. Before this one is "
            "started again, decide which of the two shall: ops/runbooks/fenced.md",
        )


class TopicChanged(SurelaneError):
    """The topic is not the one this lane was pinned to."""

    exit_status = ExitStatus.TOPIC_CHANGED

    @classmethod
    def of(cls, problem: str, *, lane: str) -> Self:
        """`problem`: which topic or cluster was replaced."""
        steps = [
            ("surelane recover gap", "what the lane was pinned to, what is there now, and where it would go on"),
            ('surelane recover gap --accept --reason "<why>"', "takes the new one, from its beginning"),
            ("surelane run", "from there"),
        ]
        problem = f"lane {lane}: {problem}: its offsets mean other messages now"
        return cls(problem, hint=by_the_page(f"lane {lane}", "topic-recreated.md", "Stopped with status 8", steps))


class TargetMismatch(SurelaneError):
    """The target database cannot take this message as it stands."""

    exit_status = ExitStatus.TARGET


class AccountingBroken(SurelaneError):
    """The counts of an epoch do not add up; nothing of it was committed."""

    exit_status = ExitStatus.ACCOUNTING


class Refused(SurelaneError):
    """What was asked for is not allowed in this state."""

    exit_status = ExitStatus.REFUSED


class BreakerTripped(SurelaneError):
    """Too many messages would go into quarantine; nothing of the epoch was applied."""

    exit_status = ExitStatus.BREAKER


class TooManyParked(SurelaneError):
    """More messages of paused tables would be parked than allowed; nothing of the epoch was applied, and the lane is
    paused."""

    verdict = Verdict.RETRY
    exit_status = ExitStatus.BREAKER


class TransactionTooLong(SurelaneError):
    """More messages wait for the rest of their source transaction than allowed; nothing of it was applied."""

    exit_status = ExitStatus.TRANSACTION


class TooManyHeld(SurelaneError):
    """More messages wait for what is unread in another topic than allowed; nothing of the epoch was applied."""

    exit_status = ExitStatus.TRANSACTION


class SparkFailed(SurelaneError):
    """Spark ended the query."""

    verdict = Verdict.RETRY
    exit_status = ExitStatus.ENVIRONMENT


class JobFailed(SurelaneError):
    """A job of Spark failed over what it read: one of its messages may be the cause."""

    verdict = Verdict.POISON
    exit_status = ExitStatus.BAD_MESSAGE


class OutOfMemory(SurelaneError):
    """There is not enough memory for an epoch; it is read again in smaller epochs."""

    verdict = Verdict.RETRY
    exit_status = ExitStatus.ENVIRONMENT


class Unattributed(SurelaneError):
    """An epoch fails, and no single message is the cause."""

    exit_status = ExitStatus.UNATTRIBUTED

    @classmethod
    def of(cls, problem: str, *, lane: str) -> Self:
        """`problem`: which work fails, and which passes."""
        steps = [
            ("surelane guard show", "which span, and what is on record of it"),
            ("surelane doctor", "memory, servers, privileges"),
            ("surelane run", "tries the same epoch again, once the cause is mended"),
        ]
        return cls._by_the_page(problem, lane, "Stopped with status 17", steps)

    @classmethod
    def of_query(cls, problem: str, *, lane: str) -> Self:
        """`problem`: the span, and why it cannot be computed. `lane`: `<lane>.<query>`."""
        query = lane.rpartition(".")[2]
        steps = [
            (f"surelane run --query {query}", "computes the same epoch again, once the SQL or the function is mended"),
            (f"surelane state rebuild {query}", "instead, where its keys or types are others now: all of it anew"),
        ]
        return cls._by_the_page(problem, lane, "A query that cannot be computed", steps)

    @classmethod
    def _by_the_page(cls, problem: str, lane: str, section: str, steps: Sequence[tuple[str, str]]) -> Self:
        return cls(
            f"lane {lane}: {problem}. Nothing of this epoch was applied, and nothing was skipped",
            hint=by_the_page(f"lane {lane}", "epoch-fails.md", section, steps),
        )


class SparkGone(SurelaneError):
    """The Spark driver's JVM is gone; this process cannot go on without it, its supervisor starts another one."""

    exit_status = ExitStatus.ENVIRONMENT


class CrashLoop(SurelaneError):
    """The worker died and is not started again."""

    exit_status = ExitStatus.CRASH_LOOP


class StateUnfit(SurelaneError):
    """The state of a query, which is in its checkpoint, does not fit what the query computes now, or is half of a
    rescale."""

    exit_status = ExitStatus.REFUSED


class Replanned(SurelaneError):
    """The query starts again with another plan: one that leaves a condemned message out, or that reads Kafka, once it
    has read the archive."""

    verdict = Verdict.RETRY
    exit_status = ExitStatus.BAD_MESSAGE


class PartitionAdded(SurelaneError):
    """The topic has a new partition; the lanes are opened again to give it a writer."""

    verdict = Verdict.RETRY
    exit_status = ExitStatus.ENVIRONMENT
