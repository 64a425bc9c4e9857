"""The archive keeps the messages that a lane consumed as files, beyond Kafka's retention. To write, it is a participant
of each epoch (`app.protocol.participant`); to read, it is a second source of the same messages.

    <archive.path>/<lane>/
        .part-orders@7-41.jsonl.zst        epoch 41 of generation 7: begun or pre-committed, invisible to readers
        orders@7-40.jsonl.zst              a committed epoch
        orders@7-0..7-39.jsonl.zst         committed epochs, combined into one file

Promise: a file without `.part-` is whole and of a committed epoch; each committed epoch's messages are in one file,
after any crash. A position is kept once: an epoch whose messages are kept already (replayed, or applied again to a
restored target) writes only the missing ones, if any. Kafka defines the message at a position, so readers need not know
which epoch and generation wrote it.

    begin       a thread has a task read the epoch's whole span from Kafka, and writes .part-...
    pre_commit  write the end of the file with count and checksum, fsync file and folder
    commit      rename, fsync the folder
    abort       remove
    handles     the names of .part- files give lane, generation and epoch

All consumed messages are kept: quarantined, filtered and compacted ones, too. So a replay from the archive goes through
the lane as one from Kafka does.
"""
