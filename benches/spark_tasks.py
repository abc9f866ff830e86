"""
What a Spark task costs that reads a small segment: processor time and wall time of a task.

A log of many segments of a few entries each is read as a whole, with Spark's `noop` behind it; the
first reading, which starts the workers, is left out. Told is the median of the rounds. Processor
time is that of Java and of all Python workers.

Run: .venv/bin/python benches/spark_tasks.py [--segments N] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.session import spark_session
from trials.pipeline.operation_log import OperationLog

CORES = 2
SEGMENT_BYTES = 8 * 1024
TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Of all processes of this program's session that are alive."""
    session = os.getsid(0)
    ticks = 0
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICK


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description="What a Spark task costs.")
    parser.add_argument("--segments", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    if os.getsid(0) != os.getpid():
        os.setsid()
    with tempfile.TemporaryDirectory() as place:
        log = OperationLog(Path(place) / "log", seed=1, segment_bytes=SEGMENT_BYTES)
        log.run(50)
        while len(LogDirectory(str(log.directory)).position().bases) < chosen.segments:
            log.run(50)
        tasks = len(LogDirectory(str(log.directory)).position().bases)
        spark = spark_session("spark_tasks", f"local[{CORES}]")
        walls, processors = [], []
        for _ in range(chosen.rounds + 1):
            began, used = time.perf_counter(), processor_seconds()
            frame = spark.read.format("holdfast").load(str(log.directory))
            frame.write.format("noop").mode("overwrite").save()
            walls.append(time.perf_counter() - began)
            processors.append(processor_seconds() - used)
        spark.stop()
    wall = statistics.median(walls[1:]) / tasks * CORES
    used = statistics.median(processors[1:]) / tasks
    print(f"{tasks} tasks: {wall * 1e3:.1f} ms of a core's time and {used * 1e3:.1f} ms used, each")


if __name__ == "__main__":
    main()
