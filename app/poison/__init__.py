"""The poison guard: no message can stop a lane for good.

**Promise.** The guard commits a record of each span, in a transaction of its own, before the lane processes the span; a
rollback of the target does not undo it. After a death or an error the span that was in progress is the suspect. The
guard narrows it down to one message, and condemns only single messages: after `max_attempts` failures that nothing else
explains, or `max_losses` lost connections, while other work passes. A condemned message is skipped and kept
(`app.quarantine`).

    attempts             the tables: spans in progress and suspects               (on a connection of its own)
    narrowing            pure: cuts an epoch's span along its suspects
    row_parts            pure: cuts its rows
    try_until_condemned  tries one message until it passes or is condemned
    death_evidence       what a death counts for against the span in progress
    guard                one lane's guard: begin, count, condemn
    downtime             how long the suspects have held up the lane
    guard_overview       reads the same tables for an operator
"""
