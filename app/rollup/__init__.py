"""Rollups: aggregates of a target table, kept by the target itself in the transaction that changes the rows.

    definition    the SQL of a rollup: table, trigger function, triggers, the same computed at once
    keeping       makes them at a lane's start, compares and computes them anew

Triggers see every writer: the lane's epochs, releases from the quarantine, replays, a correction by hand. So no state
is outside of the database, and what is restored fits.
"""
