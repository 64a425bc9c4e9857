"""The course of an epoch as its parts, one after the other, in milliseconds."""

from app.console.epoch_log import LoggedEpoch
from app.model.activity import Activity

#: parts in their order, and what they are
PARTS = {
    "settle": "COMMIT of the epoch before",
    "guard": "record of the attempt",
    "fetch": "read from Kafka or the archive, by a stage process",
    "decode": "decode, by a stage process",
    "function": "the user's function, by a stage process",
    "arrange": "put in order, by a stage process",
    "copy": "COPY into staging tables, by a stage process",
    "stage": "wait for the stage process beyond its work",
    "read": "read and decode, by the driver",
    "prepare": "plans of the tables",
    "apply": "merge",
    "identify": "identity of the topic and of the last messages",
    "pre-commit": "PREPARE TRANSACTION; COMMIT in the one-phase modes",
    "checkpoint": "checkpoint entry, and what Spark does around it",
    "commit": "COMMIT PREPARED",
}
NUMBERS = {name: number for number, name in enumerate(PARTS)}
#: names of the log's steps, where they differ
_STEPS = {"decode": "read"}
_ACTIVITIES = {Activity.SERVER.value: "copy"}
_STAGE, _COMMIT, _CHECKPOINT = "stage", "commit", "checkpoint"
#: milliseconds below which a rest is the rounding's
_ROUNDING_MS = 0.5


def timeline(logged: LoggedEpoch) -> dict[str, float]:
    """Part -> milliseconds. The step `stage` is split into what its stage process did; where that took longer than the
    step it began before the epoch (`ahead_ms`). Between PREPARE and COMMIT is the checkpoint: what the steps leave."""
    parts: dict[str, float] = {}
    for step, ms in logged.steps.items():
        if step == _STAGE and logged.staging:
            parts |= {_ACTIVITIES.get(name, name): spent for name, spent in logged.staging.items()}
            parts[_STAGE] = max(0.0, ms - sum(logged.staging.values()))
        else:
            parts[_STEPS.get(step, step)] = ms
    if logged.ms is not None and _COMMIT in parts:
        parts[_CHECKPOINT] = max(0.0, logged.ms - sum(logged.steps.values()))
    in_order = sorted(parts, key=lambda name: NUMBERS.get(name, len(NUMBERS)))
    return {name: round(parts[name], 1) for name in in_order if parts[name] >= _ROUNDING_MS or name in logged.steps}


def ahead_ms(logged: LoggedEpoch) -> float:
    """How long before the epoch's begin its stage process had begun to work on it."""
    return round(max(0.0, sum(logged.staging.values()) - logged.steps.get(_STAGE, 0.0)), 1)
