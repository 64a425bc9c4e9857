"""Replays: the lane's tables made anew somewhere else, of the messages that made them.

Promise: beside a running lane, and without touching anything of it, the tables are filled in another place with what
the lane itself would make of the messages of an exact range. Whenever it dies, the same call goes on.

    bounds     --from and --to, in positions: from is read, to is not any more
    origin     where the messages come from, and which of them are there: Kafka, and the lane's archive in front of it
    place      where they go: a schema of the target's database, or another database. There the replay has a ledger, a
               guard and a quarantine of its own, in a schema of its own, which is marked as a replay's
    tables     the tables there, like the target's
    replaying  one lane of `app.lane`, epoch by epoch, each with its ledger row in one COMMIT: no checkpoint, no Spark
    skipped    which messages the lane and the replay skipped: not always the same

Every step may be repeated: schema, mark and tables are made in one transaction, and where the replay goes on is in the
ledger row of the epoch before. What is read of the running lane is its catalog, its ledger and its quarantine.
"""
