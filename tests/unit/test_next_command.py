"""What a status says to type next: for each state, with the options that name the lane."""

from pathlib import Path
from typing import Any

import pytest

from app.cli.next_command import LaneOptions, hint_of, next_commands, without_hint
from app.errors import Refused

DEFAULT = LaneOptions(None, None)
GIDS = ("surelane:orders:3:41", "surelane:orders:3:42")
HINT = str(Refused("no table", hint="create it: surelane doctor"))


def typed(options: LaneOptions = DEFAULT, **status: Any) -> list[str]:
    nothing: dict[str, Any] = {"last_error": None, "waits_for": None, "in_doubt": (), "table_pauses": ()}
    return [one.command for one in next_commands(options, **(nothing | status))]


@pytest.mark.parametrize(
    ("status", "commands"),
    [
        ({"state": "running"}, []),
        ({"state": "running", "in_doubt": GIDS}, []),
        ({"state": "starting"}, []),
        ({"state": "stopped"}, ["surelane run"]),
        ({"state": "failed", "last_error": "killed"}, ["surelane run"]),
        ({"state": "failed", "last_error": HINT}, []),
        ({"state": "failed", "in_doubt": GIDS}, [f"surelane indoubt explain {GIDS[0]}", "surelane run"]),
        ({"state": "failed", "in_doubt": GIDS, "last_error": HINT}, [f"surelane indoubt explain {GIDS[0]}"]),
        ({"state": "paused"}, ["surelane resume"]),
        ({"state": "waiting", "waits_for": "standby s1"}, ["surelane doctor"]),
        ({"state": "running", "table_pauses": ["public.a b"]}, ["surelane resume --table 'public.a b'"]),
    ],
)
def test_the_command_for_each_state(status: dict[str, Any], commands: list[str]) -> None:
    assert typed(**status) == commands


def test_the_command_names_configuration_and_query() -> None:
    options = LaneOptions(Path("my lanes/orders.yaml"), "by_minute")
    named = "--config 'my lanes/orders.yaml' --query by_minute"
    assert typed(options, state="stopped") == [f"surelane run {named}"]
    assert typed(options, state="paused") == [f"surelane resume {named}"]
    assert typed(options, state="failed", in_doubt=GIDS)[0] == f"surelane indoubt explain {GIDS[0]} {named}"


def test_the_hint_of_an_error() -> None:
    assert (hint_of(HINT), without_hint(HINT)) == ("create it: surelane doctor", "no table")
    assert (hint_of("killed"), without_hint("killed"), hint_of(None)) == (None, "killed", None)
