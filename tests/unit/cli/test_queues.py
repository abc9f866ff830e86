"""`holdfast queues` is one group of commands, whichever module they stand in."""

from __future__ import annotations

from holdfast.cli.commands import commands_of


def test_all_commands_of_queues_are_there() -> None:
    """What queues hold, and what holds for them."""
    (group,) = commands_of("queues").values()
    assert set(group.commands) == {"purge", "delete", "set", "unset", "show", "pause", "resume"}
