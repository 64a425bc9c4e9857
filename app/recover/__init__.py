"""Recover: settle at a lane's start what the last one left in doubt.

Promise: after `settle`, no prepared transaction of the lane exists, target and checkpoint fit together, and the
position to go on from is known; or the start is refused and says what to do. Nothing is guessed: the checkpoint entry
decides about a prepared transaction, the ledger row tells what the target has.

    W  offsets/N exists     C  commits/N exists     P  the epoch's gid is prepared     L  its ledger row is visible

    W C P L
    1 0 0 0   not done                        Spark replays N
    1 0 1 0   prepared, checkpoint unfinished ROLLBACK PREPARED, Spark replays N
    1 0 0 1   database ahead                  N is skipped and counted as duplicate (at-least-once applies it again)
    1 1 1 0   in doubt, decision was commit   COMMIT PREPARED
    1 1 0 1   done                            go on
    1 1 0 0   lost                            stop, print the plan
    0 0 1 0   orphan of another checkpoint    ROLLBACK PREPARED
    0 0 0 1   checkpoint behind or gone       new checkpoint, resume from the ledger

Observation order: the lane's lock is held before anything is read, so no other writer can prepare meanwhile; prepared
transactions are ended before the ledger is read, so its last row is final.

For a lane that cannot start, an operator gives the same answers by hand: `evidence` looks, `verdict` judges by the
table above, `answering` refuses what disagrees with it and keeps a record, `indoubt` shows it all.

For a target that is lost, `plan` says how a snapshot and Kafka lead back, and `recovering` goes that way: step by step,
each on record in the `journal`, resumable after any death.
"""
