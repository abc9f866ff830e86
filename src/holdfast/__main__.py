"""
Lets `python -m holdfast` be the same program as `holdfast`.

Imports make hundreds of thousands of objects and leave none behind: Python's collector of cycles
would look through them again and again, for an eighth of the time that a node takes to start. A
node takes the collector into its own hands afterwards (`server.cycle_collector`).
"""

from __future__ import annotations

import gc
import sys

gc.disable()

from holdfast.cli.main import main  # noqa: E402 - as said above

if sys.argv[1:2] != ["serve"]:
    gc.enable()

if __name__ == "__main__":
    sys.exit(main())
