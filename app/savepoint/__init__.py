"""Savepoints: what a lane is at one position, in a folder that can be moved.

    savepoint         the values, and their JSON
    folder            savepoints in a directory: whole or not there, with a checksum
    place             where the directory is: `local_place` a folder, `remote_place` S3, Google Cloud Storage, HDFS
    reading           reads one for a process that forks
    picture           reads a savepoint from target, guard and configuration, while the lane runs
    fingerprint       the part of a configuration that decides what a message becomes
    compatibility     compares two configurations item by item

A checkpoint says which epochs are complete, and belongs to one run of the query. A snapshot is a copy of the target. A
savepoint says at which position the lane is, with which pins and configuration, and which snapshot is of that position.
The ledger stays the truth: a savepoint never moves a lane.
"""
