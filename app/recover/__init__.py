"""Recover: what an operator does about a lane that cannot start, or a target that is lost.

The start itself settles what the last writer left (`app.protocol`). For a lane that cannot start, an operator gives
the same answers by hand: `in_doubt_evidence` collects what is known, `verdict` judges by the start table, `answering`
refuses what disagrees with it and keeps a record, `in_doubt_overview` shows all of it.

For a target that is lost, `recovery_plan` says how a snapshot and Kafka lead back, and `recovering` goes that way:
step by step, each on record in the `journal`, resumable after any death.
"""
