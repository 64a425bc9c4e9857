"""A lane under a steady load for an hour or a day: what it holds, again and again, and whether that grows.

sample   what is looked at
measure  the run
verdict  growth, and what it may be
section  the page's part and its picture
"""
