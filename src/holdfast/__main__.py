"""
Lets `python -m holdfast` be the same program as `holdfast`.

Imports make hundreds of thousands of objects and leave next to none behind: Python's collector of
cycles would look through them again and again, for an eighth of the time that a process takes to
start, and at its end once more for a fifth, when all of them go anyway. So commands have it look
seldom, a node takes it into its own hands (`server.cycle_collector`), and at the end it has nothing
to look at.
"""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Final

_YOUNG_MAX: Final = 50_000
"""So many objects are made before they are looked through: half of what a command imports."""

gc.disable()
atexit.register(gc.freeze)

from holdfast.cli.main import main  # noqa: E402 - as said above

if sys.argv[1:2] != ["serve"]:
    gc.set_threshold(_YOUNG_MAX)
    gc.enable()

if __name__ == "__main__":
    sys.exit(main())
