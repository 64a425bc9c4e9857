"""Commit: how an epoch's transaction ends, and what its end has to do with Spark's checkpoint.

Promise of every committer: between `transaction()` returning and the next epoch, the epoch is either decided or can be
decided by `commit`; an exception inside leaves nothing. Two-phase, in the legal order:

    transaction()  BEGIN -> write -> PREPARE TRANSACTION gid     nothing of the epoch is visible
    (Spark writes commits/N: the decision)
    commit()       COMMIT PREPARED gid                            the epoch is visible, all at once

What each failure leaves behind: before PREPARE a rollback by the server; after it a prepared transaction, which
`app.recover.start` ends as the checkpoint says. One-phase committers decide inside `transaction()`; `commit` has
nothing to do.
"""
