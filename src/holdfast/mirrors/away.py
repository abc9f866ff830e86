"""
No mirror that has everything is where its path leads to any more: what is done then.

As long as there is another one, a mirror that is away is left behind. The last one is waited for,
as one directory alone is: to end would have the next start go on with what is there now. See
decision record 0078.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.environment.standing_disk import LOOK_SECONDS, AwayError

if TYPE_CHECKING:
    from holdfast.mirrors.lanes import Outcome
    from holdfast.mirrors.mirror import Mirror

Told = tuple[tuple["Mirror", ...], list["Outcome"]]
"""Who was asked to do something, and what came of it."""

logger = logging.getLogger("holdfast.mirrors")


def are_all_away(told: Told) -> bool:
    """Whether no active mirror is where its path leads to any more."""
    errors = [error for it, (_, error) in zip(*told, strict=True) if it.is_active]
    return bool(errors) and all(isinstance(error, AwayError) for error in errors)


def done_once_one_is_back(tried: Callable[[], Told], rest: Callable[[float], None]) -> Told:
    """
    Try until one of them is back, however long that takes, and give what came of it.

    Args:
        tried: Does it on all mirrors that there are then.
        rest: Lets seconds pass.
    """
    named, is_told = "", False
    while True:
        told = tried()
        if not are_all_away(told):
            if is_told:
                logger.warning("%s: there again", named)
            return told
        if not is_told:
            is_told = True
            named = ", ".join(str(it.directory) for it in told[0] if it.is_active)
            process = os.getpid()
            logger.critical(
                "%s: replaced, moved or removed while in use, and no other mirror is left that has"
                " everything: nothing is stored or confirmed until what was opened is back there."
                " Do not end this process before: put it back; what was removed can be copied from"
                " /proc/%d/fd for as long as process %d runs",
                named,
                process,
                process,
            )
        rest(LOOK_SECONDS / 4)
