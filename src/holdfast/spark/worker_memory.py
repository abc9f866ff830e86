"""
What a Python worker of Spark has loaded, kept out of its garbage collections.

PySpark collects garbage after every task and after every step of planning, over all that pandas,
pyarrow and this package have loaded: 45 ms each time, as much as all else of a task where segments
are small (`benches/spark_tasks.py`). Modules are no garbage. They are put aside as `gc.freeze` is
meant to (https://docs.python.org/3/library/gc.html#gc.freeze): before work begins.
"""

from __future__ import annotations

import gc
import sys
from itertools import count

_FREEZES_MAX = 2
"""Once for what a task's function brings, once for what the first task has loaded. What is frozen
is never collected, so it is not done for ever."""

_freezes = count()


def keep_loaded() -> None:
    """
    Keep what is loaded out of garbage collections, where this is a worker that Spark uses again.

    Anywhere else, as in a program of the user's, it does nothing; nor from the third time on.
    """
    if _is_worker() and next(_freezes) < _FREEZES_MAX:
        gc.collect()
        gc.freeze()


def _is_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name in ("pyspark.daemon", "holdfast.spark.worker_daemon")
