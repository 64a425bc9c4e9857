"""Recover: what an operator does about a lane that cannot start, or a target that is lost.

A start settles what the last writer left prepared (`app.protocol`). For a lane that cannot start, an operator gives the
same answers by hand: `in_doubt_evidence` collects the evidence, `verdict` applies the start table, `answering` refuses
an answer that disagrees with the verdict and records each one, `in_doubt_overview` shows every prepared transaction.

For a lost target, `recovery_plan` plans the recovery from a snapshot and Kafka, and `recovering` carries the plan out:
each step is recorded in the `journal`, and a recovery can be resumed after any death.
"""
