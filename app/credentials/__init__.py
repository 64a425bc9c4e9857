"""Passwords and tokens, fetched from their configured source when they are needed.

They are never written to disk, logged, or passed in the environment or command line of another process.
"""
