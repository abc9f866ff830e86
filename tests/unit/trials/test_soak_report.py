"""
The report of a soak, rendered from canned samples; and the record it is made from.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.model.limits import MiB
from trials.soak.__main__ import main
from trials.soak.guard import guarded, nodes_below
from trials.soak.mild_faults import ALONE, TOGETHER, fault_order
from trials.soak.report import render
from trials.soak.samples import (
    AccountRow,
    ClientSample,
    FaultMark,
    NodeSample,
    Recorder,
    read_record,
)
from trials.soak.sampling import add_status, look_at_process
from trials.soak.settings import SoakSettings

SECONDS = 200


def write_record(folder: Path, *, leak: int = 0, has_end: bool = True) -> None:
    """Write what a run of three nodes would have: a kill at 50 s, a sawtooth on disk."""
    randomness = random.Random(4)
    with Recorder(folder) as recorder:
        recorder.write("run", {"topology": "three", "seed": 9, "seconds": SECONDS})
        for at in range(SECONDS):
            for name in "abc":
                if name == "a" and 50 <= at < 53:
                    continue
                leads = name == ("a" if at < 50 else "b")
                recorder.note(
                    NodeSample(
                        at=at,
                        node=name,
                        pid=200 if name == "a" and at > 50 else ord(name),
                        rss_bytes=int((70 + randomness.random()) * MiB) + leak * at,
                        fds=32 if leads else 21,
                        threads=8,
                        cpu_seconds=at * 0.3,
                        disk_bytes=(20 + at % 15) * MiB,
                        disk_files=12,
                        role=None if at == 50 else "leader" if leads else "follower",
                        term=2,
                        connections=11 if leads else 0,
                        depth=at % 40 * 60,
                        live_messages=at % 40 * 60,
                        first_index=at * 9,
                        last_index=at * 10 + 100,
                        commit_index=at * 10 + 100 - (name == "c"),
                        segments=6,
                        memory_bytes=MiB,
                    )
                )
            is_out = 50 <= at < 52
            recorder.note(
                ClientSample(
                    at=at,
                    seconds=1.0,
                    confirms=0 if is_out else 440,
                    deliveries=0 if is_out else 480,
                    p50_ms=None if is_out else 1.1,
                    p99_ms=None if is_out else 9.0,
                    gap_ms=1300.0 if is_out else 12.0,
                    rss_bytes=40 * MiB,
                )
            )
        recorder.note(FaultMark(at=50, fault="kill leader", node="a", seconds=3, gap_ms=1300))
        if has_end:
            recorder.note(AccountRow(at=SECONDS, name="durable", is_strict=True, sent=88_000))
            recorder.write("end", {"at": SECONDS, "is_interrupted": False})


@pytest.fixture(scope="module")
def rendered(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("soak")
    write_record(folder)
    assert render(folder).problems == ()
    return folder


@pytest.mark.slow
def test_pictures_are_readable_at_1200_pixels(rendered: Path) -> None:
    """
    One PNG for each group, as wide as a page.
    """
    names = sorted(path.name for path in rendered.glob("*.png"))
    groups = ("cluster", "disk", "handles", "memory", "traffic")
    assert names == [f"curves-{group}.png" for group in groups]
    for name in names:
        head = (rendered / name).read_bytes()[:24]
        assert head.startswith(b"\x89PNG")
        width, height = struct.unpack(">II", head[16:24])
        assert width == 1200
        assert 600 < height < 1600


@pytest.mark.slow
def test_the_page_needs_no_other(rendered: Path) -> None:
    """
    One HTML file: pictures inside, no script, nothing from a network.
    """
    text = (rendered / "report.html").read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 5
    assert not re.search(r"<script|<link|src=\"(?!data:)|href=|https?://", text)
    for words in ("flat, nothing lost", "kill leader", "88,000", "resident memory", "per hour"):
        assert words in text


def test_a_leak_stands_at_the_top(tmp_path: Path, monkeypatch) -> None:
    """
    The verdict is not ok, and the page names measure and node before anything else.
    """
    monkeypatch.setattr("trials.soak.report.draw", lambda record, folder: [])
    write_record(tmp_path, leak=120_000)
    verdict = render(tmp_path)
    assert not verdict.is_ok
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 0 < text.index("rss_bytes of node") < text.index("What was sent")


def test_an_aborted_run_is_rendered(tmp_path: Path, monkeypatch, capsys) -> None:
    """
    From the command line, though the last line was cut off; a leak gives exit code 1.
    """
    monkeypatch.setattr("trials.soak.report.draw", lambda record, folder: [])
    write_record(tmp_path, has_end=False)
    with (tmp_path / "samples.jsonl").open("a") as file:
        file.write('{"kind":"node","at":12')
    assert main(["--render", str(tmp_path)]) == 0
    assert "the run has no end" in capsys.readouterr().out
    assert main(["--render", str(tmp_path / "nothing")]) == 2
    assert "no record" in capsys.readouterr().out


def test_a_run_does_not_write_over_another(tmp_path: Path, capsys) -> None:
    """
    A folder with something in it is refused.
    """
    (tmp_path / "report.html").write_text("of yesterday")
    assert main(["--seconds", "1", "--report", str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().out


def test_the_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """
    By several threads, with fields of a later version left out.
    """
    row = AccountRow(at=1, name="x", is_strict=True, errors=("one", "two"))
    mark = FaultMark(at=2, fault="transfer", node="b")
    with Recorder(tmp_path) as recorder:

        def write() -> None:
            for _ in range(100):
                recorder.note(mark)

        threads = [threading.Thread(target=write) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.note(row)
        recorder.write("problem", {"at": 3, "text": "bad"})
        recorder.write("fault", {"at": 2, "fault": "transfer", "node": "b", "later": 1})
    recorder.note(row)
    record = read_record(tmp_path)
    assert record.faults == [mark] * 401
    assert record.accounts == [row]
    assert record.problems == ["bad"]


def test_faults_come_in_rounds() -> None:
    """
    The leader dies first; each kind happens before one comes again; a seed tells the order.
    """
    order = fault_order(5, 3)
    first = [next(order) for _ in TOGETHER]
    assert first[0] == "kill leader"
    assert sorted(first) == sorted([next(order) for _ in TOGETHER]) == sorted(TOGETHER)
    again = fault_order(5, 3)
    assert first == [next(again) for _ in TOGETHER]
    alone = fault_order(5, 1)
    assert {next(alone) for _ in range(6)} == set(ALONE)


def test_a_sample_of_this_process(tmp_path: Path) -> None:
    """
    What the kernel says: memory, handles, threads, and what a folder takes on disk.
    """
    (tmp_path / "file").write_bytes(b"x" * 100_000)
    before = look_at_process(1.0, "me", os.getpid(), tmp_path)
    files = [(tmp_path / str(number)).open("w") for number in range(5)]
    after = look_at_process(2.0, "me", os.getpid(), tmp_path)
    for file in files:
        file.close()
    assert before.rss_bytes > MiB
    assert before.threads >= threading.active_count()
    assert after.fds == before.fds + 5
    assert (before.disk_files, after.disk_files) == (1, 6)
    assert 98_000 < before.disk_bytes < 300_000
    assert before.role is None
    with pytest.raises(OSError, match="No such"):
        look_at_process(1.0, "gone", 1 << 30, tmp_path)


def test_a_sample_with_what_the_node_says(tmp_path: Path) -> None:
    """
    Role, log and queues.
    """
    status = {
        "role": "leader",
        "term": 3,
        "connections": 4,
        "commit_index": 70,
        "store": {"live_messages": 5, "first_index": 11, "last_index": 70, "segments": 2},
        "memory": {"used_bytes": 99},
    }
    kernel = look_at_process(1.0, "me", os.getpid(), tmp_path)
    sample = add_status(kernel, status, [{"messages": 3}, {"messages": 4}])
    assert (sample.depth, sample.entries, sample.memory_bytes) == (7, 60, 99)
    assert json.dumps(sample.role) == '"leader"'


@pytest.mark.parametrize("hours", [0.01, 0.33, 1, 24])
def test_timings_follow_the_length(hours: float) -> None:
    """
    A minute shows what an hour shows: faults, stretches to judge, backlogs, shifts.
    """
    settings = SoakSettings(seconds=hours * 3600)
    assert settings.seconds / settings.fault_interval >= 2
    assert settings.fault_interval <= 180
    assert settings.warm_up + settings.judged_min < settings.seconds / 2
    assert settings.backlog_seconds < settings.seconds / 3
    assert settings.shift_seconds <= 120
    assert settings.old_message_seconds < settings.seconds


def test_a_guard_ends_what_was_left(tmp_path: Path) -> None:
    """
    Only what has its data below the run's folder, and only when the runner is gone.
    """
    folders = [tmp_path / "run" / "a", tmp_path / "running" / "a"]
    command = [sys.executable, "-c", "import time; time.sleep(60)", "--data"]
    mine, other = (subprocess.Popen([*command, str(folder)]) for folder in folders)
    try:
        with guarded(tmp_path / "run"):
            assert nodes_below(tmp_path / "run") == [mine.pid]
            assert mine.poll() is None
        assert mine.wait(10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for each in (mine, other):
            each.kill()
            each.wait()
