"""Passwords and tokens: had from where the configuration says they are, at the moment they are needed.

Nothing here is written down, logged, or put into the environment or the command line of another process.
"""
