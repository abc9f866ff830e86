"""
Answers of an object store that pyarrow cannot take, though the next one would do.

A request that reads is answered into room for what was asked for. A store that has too much to do
answers by some hundred bytes of XML instead, and where less was asked for they find no room: AWS's
client then reports that its stream is broken, and does not ask again as it does for every other
refusal (seen with pyarrow 26; apache/doris#61636 does the same as this module).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

_NO_ROOM: Final = "Failed to flush response stream"
_ATTEMPTS: Final = 6
_PAUSE_SECONDS: Final = 0.1
"""Before the second attempt; before each further one twice as long, 3 s in all."""

Answer = TypeVar("Answer")


def asked_again(ask: Callable[[], Answer]) -> Answer:
    """
    Call what reads from a store, again if the store's refusal found no room.

    Nothing but the call itself may have moved on by a failed one: `NativeFile.read` has not.

    Raises:
        OSError: Whatever else goes wrong, at once; or the store goes on refusing.
    """
    pause = _PAUSE_SECONDS
    for _ in range(_ATTEMPTS - 1):
        try:
            return ask()
        except OSError as error:
            if _NO_ROOM not in str(error):
                raise
        time.sleep(pause)
        pause *= 2
    return ask()
