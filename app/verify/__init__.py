"""Compares the target with another database, table by table, by hashes of key ranges."""
