"""
The daemon that Spark's workers on this machine are forked from speaks as PySpark's own does.
"""

from __future__ import annotations

import struct
import subprocess
import sys

COMMAND = (sys.executable, "-m", "holdfast.spark.worker_daemon", "pyspark.worker")


def test_it_listens_and_ends_as_spark_tells_it_to() -> None:
    """A port on its output, and the end with the end of its input."""
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        (port,) = struct.unpack(">i", daemon.stdout.read(4))
        assert 0 < port < 65_536
        daemon.stdin.close()
        daemon.wait(timeout=30)


def test_what_workers_need_is_loaded_before_it_listens() -> None:
    """Otherwise each of them would load it for itself."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, holdfast.spark.worker_daemon; print(*sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    needed = {"pandas", "pyarrow", "holdfast.spark.source.batch_reader", "holdfast.spark.log.proof"}
    assert needed <= set(told.stdout.split())


def test_each_worker_draws_its_own_random_numbers() -> None:
    """numpy's are those of the process that was forked, unless they are seeded anew."""
    program = """
import os, numpy, holdfast.spark.worker_daemon
for _ in range(3):
    if not os.fork():
        os.write(1, b"%d\\n" % numpy.random.randint(1 << 30))
        os._exit(0)
    os.wait()
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert len(set(told.stdout.split())) == 3
