"""Snapshots of the target: taken while the lane runs, restored to another place.

Promise: each snapshot that `list` shows is whole, and its content reaches at least the position on record. A restore
never changes the original, and may be called again until it is done.

The content is a driver's: `basebackup`, `dump`, `rds` (interface: `app.snapshot.driver`). The manifest is beside it.
The ledger is part of the target, so a snapshot's position is the one in its own ledger:

    dump         reads the ledger in the same database snapshot that pg_dump uses: exact
    basebackup   consistent as of the backup's end, which no query can name: the ledger is read before the begin and
    rds          after the end, and the position lies between the two. The first restore reads the exact one

Create:    .part-<name>/ (locked) -> content -> SHA256SUMS -> manifest.json -> fsync -> rename to <name>/
Delete:    rename <name>/ to .deleted-<name>/ -> remove

The rename makes a snapshot exist, or not exist. The next `create` removes what a dead process left: a folder that
is not locked.
"""
