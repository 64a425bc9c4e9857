"""The poison guard: no message can stop a lane for good.

**Promise.** Before a span is processed, its record is committed in a transaction of its own, which the rollback of the
target does not undo. After a death or an error the span that was in progress is the suspect. It is narrowed down to one
message, and only one message is ever condemned: after `max_attempts` failures that nothing else explains, or
`max_losses` deaths, while other work passes. A condemned message is skipped and kept (`app.quarantine`).

    attempts             the tables: what is in progress, what is suspected        (on a connection of its own)
    narrowing            pure: an epoch is cut along the suspects
    try_until_condemned  one message: tried until it passes or is condemned
    death_evidence       what a death says of the span that was in progress
    guard                one lane's guard: begin, count, condemn
    downtime             how long the suspects have kept the lane
    guard_overview       the same tables, for an operator
"""
