"""
What Spark's Python workers on this machine are forked from: it has loaded what they need.

PySpark's own daemon forks workers that each load pandas, pyarrow and this package for themselves:
0.7 s of a processor for each, half the time of a short job. Here they have it at once, in pages
that they share. Only for a master `local`: elsewhere this package may reach workers with the job.

The setting is `spark.python.daemon.module` (org.apache.spark.internal.config.Python).
"""

from __future__ import annotations

import gc
import os

import numpy as np
import pandas as pd  # type: ignore[import-untyped]  # noqa: F401 - pyarrow will load it
import pyspark.worker  # noqa: F401 - what it loads is loaded for the workers
from pyspark.daemon import manager

import holdfast.spark.pipelines.archive
import holdfast.spark.pipelines.audit
import holdfast.spark.pipelines.restore
import holdfast.spark.source.data_source
import holdfast.spark.source.writer  # noqa: F401 - as above

os.register_at_fork(after_in_child=np.random.seed)
"""What is forked begins with other random numbers, as Python's own `random` does by itself."""

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()
