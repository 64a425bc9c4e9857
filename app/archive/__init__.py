"""The archive: what a lane consumed, kept as files beyond Kafka's retention. A participant of each epoch
(`app.commit.participant`) on the writing side, a second source of the same messages on the reading side.

    <archive.path>/<lane>/
        .part-orders@7-41.jsonl.zst        of epoch 41 of generation 7: begun or pre-committed, seen by nobody
        orders@7-40.jsonl.zst              committed
        orders@7-0..7-39.jsonl.zst         committed epochs, combined into one file

Promise: a file without `.part-` is whole, and of a committed epoch; every committed epoch's messages are in one, after
any crash. A position is kept once: an epoch whose messages are kept already (replayed, or applied once more to a
restored target) writes only what is missing, which is nothing. What stands at a position is Kafka's to say, so which
epoch of which generation brought it does not matter to those who read.

    begin       a thread has a task read the epoch's span from Kafka, whole, and writes .part-...
    pre_commit  the end of the file with its count and checksum, fsync of file and folder
    commit      rename, fsync of the folder
    abort       remove
    handles     the names of .part- files say whose they are

All consumed messages are kept, whatever became of them: quarantined, filtered, compacted ones too. So a replay from the
archive goes through the lane as one from Kafka does.
"""
