"""The commit protocol: how an epoch of one lane ends, for all of its participants, and after any crash.

**Promise.** Each participant of an epoch has all of it or none of it, whatever fails and whenever. An epoch is applied
exactly once in the modes `two-phase` and `ledger`, at least once in `at-least-once`. Only one writer of a lane can
commit: a writer with an older generation cannot.

**Participants** (`participant`): the target, which has the ledger, always; the archive (`app.archive`) if it is
configured.

**States** of an epoch's transaction: open -> pre-committed -> decided -> committed; or rolled back from either of the
first two. Two-phase: Spark's file `commits/N` is the decision. One-phase modes: the target's COMMIT is the decision.

**Legal order** (`committer`):

    two-phase   begin all -> write -> pre-commit the others -> PREPARE TRANSACTION gid       nothing is visible
                (Spark writes commits/N: the decision; `checkpoint_watcher` waits for it)
                COMMIT PREPARED gid -> commit the others                                     visible, all at once
    one phase   begin all -> write -> pre-commit the others -> COMMIT: the decision -> commit the others

**At a start** (`fencing`, then `start_table`): claim a generation, take the lane's lock, settle prepared transactions
by the start table, read the ledger, choose where to go on, activate the generation. Then no transaction of the lane is
prepared, target and checkpoint agree, and the position is known; or the start is refused with the steps to take.
Nothing is guessed: the checkpoint entry decides a prepared transaction, the ledger row shows what the target has.

    W  offsets/N exists     C  commits/N exists     P  the epoch's gid is prepared     L  its ledger row is visible

    W C P L
    1 0 0 0   not done                        N is replayed
    1 0 1 0   prepared, checkpoint unfinished ROLLBACK PREPARED, N is replayed
    1 0 0 1   database ahead                  N is skipped and counted as duplicate (at-least-once applies it again)
    1 1 1 0   in doubt, decision was commit   COMMIT PREPARED
    1 1 0 1   done                            go on
    1 1 0 0   lost                            stop, print the plan
    0 0 1 0   orphan of another checkpoint    ROLLBACK PREPARED
    0 0 0 1   checkpoint behind or gone       new checkpoint, resume from the ledger

The lock is taken before anything is read, so no other writer can prepare meanwhile. Prepared transactions are ended
before the ledger is read, so its last row is final.

**Failures.** Before the last pre-commit nothing is left. After it a start ends the prepared transaction as the
checkpoint decided, and the other participants' parts as the target's part: in every mode the ledger row of an epoch is
visible exactly when the target has committed it.
"""
