"""Checks of the topic that `guard.dead_letter` names. Faults of it are warnings, since the lane runs without it."""

from app.cli.doctor_checks.finding import Finding, failed, ok, warn
from app.config.settings import Settings
from app.errors import ConfigInvalid, SurelaneError
from app.kafka.broker import Broker
from app.kafka.dead_letter_producer import DeadLetterTopic

_CHECK = "dead_letter"


def dead_letters(settings: Settings) -> list[Finding]:
    """All checks of the topic; none without one. The configuration's own check rejects a topic that the lane reads."""
    config = settings.guard.dead_letter
    if config is None:
        return []
    try:
        with DeadLetterTopic(settings.source, config) as topic, Broker(settings.source) as broker:
            topic.check()
            kept = broker.retention(config.topic)
    except ConfigInvalid as error:
        return [failed(_CHECK, error)]
    except SurelaneError as error:
        hint = error.hint or "see guard.dead_letter in docs/CONFIG.md"
        return [warn(_CHECK, f"{error.message}; what is skipped waits in the quarantine", hint)]
    if kept.compacted:
        message = f"{config.topic} is compacted: it takes no message without a key, and forgets older ones of a key"
        return [warn(_CHECK, message, "set cleanup.policy=delete")]
    return [ok(_CHECK, f"copies of what is skipped go to {config.topic}")]
