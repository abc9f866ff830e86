"""
A short soak on real processes: it samples, accounts, draws and judges, and leaves nothing running.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.model.limits import MiB
from trials.soak.guard import nodes_below
from trials.soak.report import render
from trials.soak.samples import FILE_NAME, read_record
from trials.soak.settings import SoakSettings

pytestmark = pytest.mark.processes

COMMAND = [sys.executable, "-m", "trials.soak", "--seed", "3", "--rate", "0.5"]


@pytest.mark.slow
def test_a_short_run(tmp_path: Path) -> None:
    """
    Every node is sampled, a leader dies, nothing is lost, all is flat, and nothing is left running;
    the same record with a leak written into it is not flat.
    """
    folder = tmp_path / "soak"
    command = [*COMMAND, "--seconds", "16", "--fault-seconds", "7", "--report", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok: flat, and nothing was lost" in done.stdout
    assert (folder / "report.html").stat().st_size > 100_000
    assert len(list(folder.glob("curves-*.png"))) == 5
    record = read_record(folder)
    assert {name: len(record.of_node(name)) > 5 for name in "abc"} == dict.fromkeys("abc", True)
    assert record.faults[0].fault == "kill leader"
    strict = [row for row in record.accounts if row.is_strict]
    assert len(strict) == 8
    assert all(row.confirmed for row in strict)
    assert len({sample.pid for sample in record.nodes}) >= 4
    assert nodes_below(folder) == []

    leak_into(folder)
    verdict = render(folder)
    assert not verdict.is_ok
    assert all("disk_bytes of node b grew" in problem for problem in verdict.problems)


def leak_into(folder: Path) -> None:
    """Give one node's disk 4 MiB more with every second."""
    lines = []
    for line in (folder / FILE_NAME).read_text().splitlines():
        values = json.loads(line)
        if values["kind"] == "node" and values["node"] == "b":
            values["disk_bytes"] += int(values["at"] * 4 * MiB)
        lines.append(json.dumps(values) + "\n")
    (folder / FILE_NAME).write_text("".join(lines))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_hour_is_cut_short(tmp_path: Path, number: signal.Signals) -> None:
    """
    Ctrl-C: a report of what was seen. A kill: the nodes end all the same, and the record can be
    rendered.
    """
    folder = tmp_path / "soak"
    command = [*COMMAND, "--hours", "1", "--topology", "single", "--report", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as soak:
        try:
            wait_for_samples(folder)
            soak.send_signal(number)
            text, _ = soak.communicate(timeout=60)
        finally:
            soak.kill()
    deadline = time.monotonic() + 10
    while nodes_below(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert nodes_below(folder) == []
    if number == signal.SIGINT:
        assert "the run was interrupted" in text
        assert soak.returncode == 1
        assert [row.faults for row in read_record(folder).accounts if row.is_strict] == [[]] * 8
    else:
        verdict = render(folder, SoakSettings(seconds=10))
        assert any("killed" in remark for remark in verdict.remarks)


def wait_for_samples(folder: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        path = folder / FILE_NAME
        if path.exists() and path.read_text().count('"kind":"clients"') >= 2:
            return
        time.sleep(0.1)
    raise AssertionError("no samples within 30 s")
