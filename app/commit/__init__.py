"""Commit: how an epoch ends for everything that takes part in it, and what its end has to do with Spark's checkpoint.

An epoch has *participants* (`app.commit.participant`): the target first, which holds the ledger, and behind it whoever
else keeps something of it (the archive, `app.archive`). Promise: all of them have an epoch, or none, after any crash.

Promise of every committer: between `transaction()` returning and the next epoch, the epoch is either decided or can be
decided by `commit`; an exception inside leaves nothing. Two-phase, in the legal order:

    transaction()  begin all -> write -> pre-commit the others -> PREPARE TRANSACTION gid     nothing of it is visible
    (Spark writes commits/N: the decision)
    commit()       COMMIT PREPARED gid -> commit the others                                   visible, all at once

One-phase (`ledger`, at-least-once): the target cannot wait, so it is asked last, and its COMMIT is the decision:

    transaction()  begin all -> write -> pre-commit the others -> COMMIT (decided) -> commit the others

What each failure leaves behind: before the last pre-commit nothing; after it a prepared transaction, which
`app.recover.start` ends as the checkpoint says, and what the others pre-committed, which it ends as the target ended:
the ledger's row of an epoch is visible exactly when the target has committed it, in every mode.
"""
