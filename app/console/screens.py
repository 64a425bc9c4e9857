"""The screens: each a document and a template, at an address of its own below `/lanes/<lane>`.

A screen is served as a page, as JSON below `/api`, and as a stream of what changes below `/live`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from app.cli.rendering import Document
from app.console import readings
from app.console.parameters import Parameters
from app.console.served_lanes import ServedLane

Reading = Callable[[ServedLane, Parameters], Document]
#: a parameter in a screen's path, with its name
PATH_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")


@dataclass(frozen=True, kw_only=True)
class Screen:
    """What is at one address."""

    name: str
    #: below /lanes/<lane>
    path: str
    title: str
    reading: Reading
    #: a file of templates/; its part `live` is what the stream sends
    template: str
    #: seconds between two readings while a page is open; None: it is not read again
    seconds: float | None
    #: one sentence for the OpenAPI document
    gives: str
    #: top-level keys of the document, and their meaning
    keys: Mapping[str, str]
    #: filters of the address, and their meaning
    filters: Mapping[str, str] = field(default_factory=dict)
    #: whether the navigation has it
    is_main: bool = True
    #: what the page has before the stream's first event, where the reading waits for other servers
    quick: Reading | None = None
    #: what the stream has, where that waits less than the reading
    live: Reading | None = None

    def first(self, lane: ServedLane, asked: Parameters) -> Document:
        """The document of a page that is opened."""
        return (self.quick or self.reading)(lane, asked)

    def next(self, lane: ServedLane, asked: Parameters) -> Document:
        """The document of a page that is open."""
        return (self.live or self.reading)(lane, asked)

    @property
    def section(self) -> str:
        """The path of the screen that leads here."""
        return "/" + self.path.split("/")[1]


_LIMIT = {"limit": f"lines, {readings.MAX_LINES} at most", "before": "only older than this one: the answer's `older`"}
_STATUS = {
    "lane": "name",
    "state": "starting, running, waiting, paused, stopped or failed",
    "generation": "of the writer",
    "epoch": "the newest applied one",
    "position": "topic -> partition -> next offset",
    "lag_messages": "at most so many are not applied; null: not known",
    "lag_seconds": "age of the oldest of them",
    "plans": "plan -> number of the newest 1,000 epochs",
    "pause": "null, or by whom, when and why",
    "table_pauses": "of single tables, with the messages that are parked",
    "waits_for": "in state waiting: what for",
    "in_doubt": "gids of prepared transactions",
    "last_error": "with what to do",
    "writer": "process, and session that holds the lane's lock",
    "stage": "what the stage processes work on",
    "lanes": "with order: partition: each lane",
    "lag_trouble": "why the lag is not known",
    "freshness_seconds": "of the newest epoch with a change: from the source's commit to the target",
    "in_doubt_age_seconds": "of the oldest prepared transaction of the lane",
    "applied_at": "when the newest epoch was applied",
    "next": "the command to type next, where the error does not name it",
    "recent": "figures of the newest epochs, the oldest first",
}
_TRANSACTIONS = {
    "lane": "name",
    "transactions": "every prepared transaction of the database, the oldest first",
    "slots": "prepared transactions of the server, and its limit",
    "unfinished": "answers whose end is not on record",
    "answers": "the newest answers by hand, of all lanes of the database",
    "answers_total": "how many there are",
}

SCREENS = (
    Screen(
        name="now",
        path="/now",
        title="Now",
        reading=readings.now,
        quick=readings.now_without_lag,
        live=readings.now_live,
        template="now.html",
        seconds=2,
        gives="The document of `surelane status --json`, with freshness, age in doubt and the newest epochs.",
        keys=_STATUS,
    ),
    Screen(
        name="epochs",
        path="/epochs",
        title="Epochs",
        reading=readings.epochs,
        template="epochs.html",
        seconds=2,
        gives="A page of the ledger, the newest epoch first.",
        keys={
            "lane": "name",
            "lanes": "with order: partition: all of them",
            "total": "epochs that the filters keep",
            "epochs": "span, counts, plan, times, and milliseconds of each step where a log has them",
            "generations": "those that wrote these epochs: process, host, since when",
            "plans": "plans that the lane has taken",
            "older": "`before` of the next page; null: there is none",
            "events": "deaths, fallbacks, retries and skipped messages, where a log has them",
            "steps_from": "the logs that were read",
        },
        filters={
            "plan": "only epochs of this plan",
            "generation": "only of this generation",
            "since": "applied since: 30m, 2h, 7d ago, or a time",
            "quarantined": "1: only with skipped messages",
            "duplicate": "1: only with messages that the target had already",
            "of": "with order: partition: of this lane",
            **_LIMIT,
        },
    ),
    Screen(
        name="epoch",
        path="/epochs/{key}",
        title="Epoch",
        reading=readings.epoch,
        template="epoch.html",
        seconds=None,
        gives="One epoch; its address is generation and number: 3.41.",
        keys={
            "lane": "name",
            "key": "generation.epoch",
            "generation": "of the writer",
            "epoch": "number",
            "plan": "order in which the changes were sent",
            "start": "position",
            "end": "position",
            "read": "end of what was read, where messages are held",
            "consumed": "messages",
            "applied": "messages",
            "compacted": "messages",
            "filtered": "messages",
            "duplicate": "messages",
            "quarantined": "messages",
            "source_from": "oldest commit at the source",
            "source_to": "newest commit at the source",
            "applied_at": "when its ledger row was written",
            "freshness_seconds": "from the newest commit at the source to that",
            "steps": "milliseconds of each step; null: no log has them",
            "steps_from": "the logs that were read",
            "visible_at": "when its COMMIT was done; null: no log has it",
            "last_message": "identity of the last message of each partition",
            "generation_row": "process, host, since when",
            "checkpoint": "when it was planned and decided, where the checkpoint is on this machine",
            "older": "key of the epoch before",
            "newer": "key of the epoch behind",
        },
        filters={"of": "with order: partition: of this lane"},
        is_main=False,
    ),
    Screen(
        name="in-doubt",
        path="/in-doubt",
        title="In doubt",
        reading=readings.transactions,
        template="in_doubt.html",
        seconds=3,
        gives="The documents of `surelane indoubt list --json` and `surelane indoubt answers --json`.",
        keys=_TRANSACTIONS,
    ),
    Screen(
        name="transaction",
        path="/in-doubt/transaction",
        title="Prepared transaction",
        reading=readings.transaction,
        template="transaction.html",
        seconds=3,
        gives="The document of `surelane indoubt explain --json`, or what became of the transaction.",
        keys={
            "gid": "its name",
            "prepared": "evidence, verdict, why, locks, sessions that wait; null: it is not prepared",
            "fate": "what became of it",
            "answers": "answers to it by hand",
        },
        filters={"gid": "its name"},
        is_main=False,
    ),
    Screen(
        name="quarantine",
        path="/quarantine",
        title="Quarantine",
        reading=readings.quarantined,
        template="quarantine.html",
        seconds=5,
        gives="The document of `surelane quarantine list --json`, a page of it.",
        keys={
            "total": "entries that the filters keep",
            "entries": "the newest first, without their values",
            "older": "`before` of the next page; null: there is none",
            "open": "entries of the filters that can be released or discarded",
        },
        filters={
            "state": "in this state; may be given again",
            "table": "source schema.table; * stands for any text",
            "topic": "of this topic",
            "since": "skipped since: 30m, 2h, 7d ago, or a time",
            "reason": "part of the error or of its class",
            "sqlstate": "beginning of the SQLSTATE",
            **_LIMIT,
        },
    ),
    Screen(
        name="outcome",
        path="/quarantine/outcome",
        title="Outcome",
        reading=readings.outcome,
        template="outcome.html",
        seconds=2,
        gives="What has become of entries that were released or discarded together.",
        keys={
            "ids": "their numbers, as in the address",
            "states": "state -> how many of them",
            "waiting": "released, and not taken up by the lane yet",
            "refused": "released, and refused by the lane",
            "entries": "the newest of them, without their values",
        },
        filters={"ids": "numbers and ranges: 1-50,60"},
        is_main=False,
    ),
    Screen(
        name="entry",
        path="/quarantine/{id:int}",
        title="Quarantined message",
        reading=readings.quarantine_entry,
        template="entry.html",
        seconds=2,
        gives="The document of `surelane quarantine show --json`, with what is parked behind the message.",
        keys={
            "id": "number of the entry",
            "lane": "name",
            "state": "quarantined, parked, released, discarded or superseded",
            "topic": "of the message",
            "partition": "of the message",
            "offset": "of the message",
            "timestamp_ms": "as Kafka has it",
            "table": "source schema.table; null: not known",
            "key": "size, and text or base64",
            "value": "size, and text or base64; neither where columns are hidden and the bytes are no document",
            "headers": "name and value",
            "stage": "where it failed",
            "verdict": "of the failure",
            "error_class": "of the failure",
            "error": "redacted",
            "sqlstate": "of the failure",
            "attempts": "0: parked without having been tried",
            "generation": "of the epoch that skipped it",
            "epoch": "that skipped it",
            "quarantined_at": "time",
            "changed_at": "time",
            "dead_lettered_at": "time",
            "release": "what was requested, and why it was refused",
            "history": "everything that was done with it, by whom and why",
            "behind": "entries of its key that wait for it",
        },
        is_main=False,
    ),
    Screen(
        name="guard",
        path="/guard",
        title="Guard",
        reading=readings.guard,
        template="guard.html",
        seconds=3,
        gives="The document of `surelane guard show --json`.",
        keys={"lanes": "the span in progress, and the suspects with what counts against them"},
    ),
    Screen(
        name="recovery",
        path="/recovery",
        title="Recovery",
        reading=readings.recovery,
        quick=readings.recovery_without_kafka,
        template="recovery.html",
        seconds=10,
        gives="The documents of `surelane snapshot list --json` and `surelane savepoint list --json`.",
        keys={
            "snapshots": "whole, unfinished and broken ones",
            "replayable": "snapshot -> whether Kafka and archive have all behind it, and until when",
            "recoveries": "snapshot -> how far a recovery from it has come",
            "savepoints": "whole and broken ones",
        },
    ),
    Screen(
        name="plan",
        path="/recovery/{snapshot}",
        title="Recovery plan",
        reading=readings.recovery_plan,
        template="plan.html",
        seconds=3,
        gives="The documents of `surelane recover plan --json` and `surelane recover run --status --json`.",
        keys={"plan": "checks, steps, what would be lost", "recovery": "the journal of a recovery: its steps"},
        is_main=False,
    ),
    Screen(
        name="verify",
        path="/verify",
        title="Verify",
        reading=readings.verifications,
        template="verify.html",
        seconds=10,
        gives="The last runs of `surelane verify`, the newest first.",
        keys={"lane": "name", "runs": "when, against what, how many tables, rows and differing keys"},
    ),
    Screen(
        name="comparison",
        path="/verify/{id:int}",
        title="Comparison",
        reading=readings.verification,
        template="comparison.html",
        seconds=None,
        gives="One run, with the document of `surelane verify --json`.",
        keys={
            "id": "number of the run",
            "lane": "name",
            "at": "time",
            "against": "host:port/database",
            "tables": "number of compared tables",
            "rows": "of the target in them",
            "differing": "keys",
            "equal": "whether no key differs",
            "document": "each table with the first differing keys, down to the column",
        },
        is_main=False,
    ),
    Screen(
        name="queries",
        path="/queries",
        title="Queries",
        reading=readings.queries,
        template="queries.html",
        seconds=5,
        gives="State, watermark and windows of each query of the configuration.",
        keys={"lane": "name", "queries": "what is known without Spark, and why not more"},
    ),
    Screen(
        name="doctor",
        path="/doctor",
        title="Doctor",
        reading=readings.doctor,
        quick=readings.doctor_not_yet,
        template="doctor.html",
        seconds=300,
        gives="The document of `surelane doctor --json`.",
        keys={"lane": "name", "faults": "number", "findings": "each check, its level, message and what to do"},
    ),
    Screen(
        name="configuration",
        path="/configuration",
        title="Configuration",
        reading=readings.configuration,
        template="configuration.html",
        seconds=None,
        gives="The effective configuration, secrets hidden.",
        keys={
            "lane": "name",
            "file": "name of the file",
            "values": "key, value, and whether its section is the default",
        },
    ),
)
