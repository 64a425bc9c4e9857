"""Replays: build the lane's tables again in another place, from the messages that made them.

Promise: beside a running lane, and without touching it, a replay fills tables in another place with what the lane
itself makes of the messages of an exact range. After any death the same call goes on.

    bounds           --from (inclusive) and --to (exclusive) as positions
    origin           where the messages come from, and which of them exist: Kafka, and the lane's archive in front of it
    destination      where they go: a schema of the target's database, or another database. A replay has its own ledger,
                     guard and quarantine there, in its own schema
    metadata         marks that schema as a replay's, and records which replay it is
    rebuilt_tables    makes the tables there, like the target's
    runner           runs lanes of `app.lane` epoch by epoch, each with its ledger row in one COMMIT: no checkpoint, no
                     streaming query; Spark's tasks read and stage
    skip_comparison  which messages the lane and the replay skipped: not always the same

Every step may be repeated: in the target's database one transaction makes schema, mark and tables, and the last ledger
row has the position to go on from. Of the running lane a replay reads the catalog, the ledger and the quarantine.
"""
