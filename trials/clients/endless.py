"""
The command line with some of its bounds switched off, to see what they are good for.

    python -m trials.clients.endless unsent_bytes_max,held_bytes_max serve ...

A bound is a setting of the loop, of the broker or of STOMP, by its name; it is given a value that
is never reached. What the tests of bounds do within a process this does for a real one.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from holdfast.broker.settings import BrokerSettings
from holdfast.cli.main import main
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.server.settings import ServerSettings

NEVER_REACHED: Final = 1 << 40


class Endless:
    """In the place of a setting: it was given, and is never reached."""

    def __get__(self, _settings: object, _owner: type) -> int:
        return NEVER_REACHED

    def __set__(self, _settings: object, _value: object) -> None:
        pass


def switch_off(names: list[str]) -> None:
    """
    Let these bounds never be reached.

    Raises:
        ValueError: There is no such bound.
    """
    owners: list[Any] = [BrokerSettings, ServerSettings, StompSettings]
    for name in names:
        owner = next((it for it in owners if name in it.__dataclass_fields__), None)
        if owner is None:
            raise ValueError(f"there is no setting {name!r}")
        setattr(owner, name, Endless())


if __name__ == "__main__":
    switch_off(sys.argv.pop(1).split(","))
    sys.exit(main())
