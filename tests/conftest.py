"""Fixtures of all tests; each concern has a file `fix_*.py` of its own. See README.md."""

pytest_plugins = [
    "tests.fix_servers",
    "tests.fix_target",
    "tests.fix_topic",
    "tests.fix_spark",
    "tests.fix_lane",
]
