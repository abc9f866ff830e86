"""
What roles mean on the admin port: three have a meaning there, each with that of those before it.

Any other name is a role as well: it has what was granted to it, and nothing on the admin port. The
three have nothing on destinations but what was granted to them, like all others.

Pure values.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

VIEWER: Final = "viewer"
OPERATOR: Final = "operator"
ADMIN: Final = "admin"


class Duty(IntEnum):
    """What somebody may do on the admin port: what stands here, and all before it."""

    NONE = 0
    """What everybody may who reaches the port."""

    VIEW = 1
    """Look: at queues, members, connections."""

    OPERATE = 2
    """Change queues and policies, read and move messages, read and hold the log."""

    GOVERN = 3
    """Change users, grants and members."""


_DUTIES: Final = {VIEWER: Duty.VIEW, OPERATOR: Duty.OPERATE, ADMIN: Duty.GOVERN}


def duty_of(roles: Iterable[str]) -> Duty:
    """Give what somebody with these roles may do on the admin port."""
    return max((_DUTIES.get(role, Duty.NONE) for role in roles), default=Duty.NONE)
