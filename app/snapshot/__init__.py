"""Snapshots of the target: taken while the lane runs, put back somewhere else.

Promise: what `list` shows is whole, and the position on record for it is never one that its content does not reach.
A restore never touches the original, and may be called again until it is done.

What is inside is a driver's: `basebackup`, `dump`, `rds` (`app.snapshot.driver` is what they have in common). Beside
it lies the manifest. The ledger is part of the target, so a snapshot's position is always the one in its own ledger:

    dump         the ledger is read in the very snapshot of the database that is dumped: exact
    basebackup   consistent as of the backup's end, which no query can name: the ledger is read before its begin and
    rds          after its end, and the position lies between the two. The first restore reads what it is

Making one:    .part-<name>/ (held by a lock) -> content -> SHA256SUMS -> manifest.json -> all on disk -> <name>/
Deleting one:  <name>/ -> .deleted-<name>/ -> gone

The rename is the moment at which it is there, or not there any more. What a dead process left is cleared away by the
next `create`; the lock tells that it is dead.
"""
