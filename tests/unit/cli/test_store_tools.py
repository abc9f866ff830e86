"""
`holdfast store verify` and `holdfast store dump`.
"""

from __future__ import annotations

import json

import pytest

from holdfast.cli import log_files
from holdfast.environment.disk import RealDisk
from holdfast.journal.filling import Target
from holdfast.store.record_codec import encode_records
from trials.simulation.local_journal import LocalJournal


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files.time, "sleep", lambda seconds: None)


def test_a_clean_log_ends_with_0(log, run) -> None:
    """
    Size, range and chain for people, the verdict in the last line.
    """
    assert run("store", "verify", str(log.directory)) == 0
    lines = run.out.splitlines()
    assert lines[0] == "2 segments, 32.0 KiB, entries 1 to 6, last record 8"
    assert lines[1].endswith(log.chain.hex())
    assert lines[-1] == "everything stored is whole"


def test_damage_ends_with_1_and_its_place(log, run) -> None:
    """
    Segment, byte and entry in one line.
    """
    byte = log.spoil(3)
    assert run("store", "verify", str(log.directory)) == 1
    name = f"{1:020d}.segment"
    assert f"damaged: segment {name} byte {byte:,} (entry 3): " in run.out
    assert run.out.endswith("the log is damaged\n")


def test_damage_is_readable_by_programs(log, run) -> None:
    """
    The same places as fields.
    """
    byte = log.spoil(3)
    assert run("store", "verify", str(log.directory), "--json") == 1
    body = json.loads(run.out)
    assert (body["clean"], body["last_index"], body["records"]) == (False, 6, 8)
    damage = body["damage"][0]
    assert (damage["byte"], damage["index"]) == (byte, 3)
    assert body["tail"]["state"] == "clean"


def test_an_interrupted_write_is_told_and_is_no_failure(log, run) -> None:
    """
    It was never confirmed.
    """
    start = log.tear()
    assert run("store", "verify", str(log.directory)) == 0
    assert f"a write was interrupted at the end, never confirmed: segment {4:020d}" in run.out
    assert f"from byte {start:,}" in run.out


def test_a_moving_end_is_told(log, run, monkeypatch) -> None:
    """
    Beside a busy node the last bytes are not judged.
    """
    log.roll(capacity=256 * 1024)
    log.tear()

    def write_on(seconds: float) -> None:
        log.append(log.message(1, 4, b"y" * 4000))
        log.tear()

    monkeypatch.setattr(log_files.time, "sleep", write_on)
    assert run("store", "verify", str(log.directory)) == 0
    assert "a node is writing at the end" in run.out


def test_an_end_of_which_nobody_can_tell_is_a_failure(log, run) -> None:
    """
    Rot of the last entry looks like a write that was interrupted; the operator must decide.
    """
    log.spoil(6)
    assert run("store", "verify", str(log.directory)) == 1
    assert "damaged or interrupted, it cannot be told" in run.out


def test_a_lost_ballot_is_told(log, run) -> None:
    """
    A whole log does not help a node that may not vote.
    """
    (log.directory / "ballot").write_bytes(bytes(8192))
    assert run("store", "verify", str(log.directory)) == 1
    assert "damaged: both slots" in run.out


@pytest.mark.parametrize("command", ["verify", "dump"])
def test_the_wrong_directory_ends_with_2(run, tmp_path, command: str) -> None:
    """
    A mistyped path is not a clean log.
    """
    assert run("store", command, str(tmp_path / "nowhere")) == 2
    assert "is no data directory" in run.err


def test_a_dump_is_a_table(log, run) -> None:
    """
    A heading and one line per record.
    """
    assert run("store", "dump", str(log.directory)) == 0
    lines = run.out.splitlines()
    assert lines[0].split() == ["entry", "term", "time", "record", "type", "what"]
    assert len(lines) == 11
    assert "orders sequence=1 body_bytes=5" in lines[4]


def test_a_dump_for_programs_is_a_line_of_json_per_record(log, run) -> None:
    """
    Of one queue and a range of entries, with bodies.
    """
    code = run(
        *("store", "dump", str(log.directory), "--format", "jsonl", "--bodies"),
        *("--destination", "/queue/orders", "--from-index", "3", "--to-index", "3"),
    )
    assert code == 0
    found = [json.loads(line) for line in run.out.splitlines()]
    assert [(row["sequence"], row["body"]) for row in found] == [(1, "hello"), (2, "hello")]


def test_a_dump_goes_on_behind_damage(log, run) -> None:
    """
    The damage is told beside the rows, and the exit code says that there was some.
    """
    log.spoil(3)
    assert run("store", "dump", str(log.directory), "--format", "jsonl") == 1
    assert [json.loads(line)["index"] for line in run.out.splitlines()] == [1, 2, 2, 4, 5, 5, 6]
    # rich before 15 sets it off with empty lines.
    assert run.err.strip().startswith("damaged: ")
    assert "(entry 3)" in run.err


def test_records_before_nonsense_are_shown(log, run) -> None:
    """
    A record without sense in a whole entry costs only itself and what follows it there.
    """
    good = b"".join(encode_records([log.message(1, 9)]))
    log.append(log.message(1, 9), body=good + b"\x63\x00\x00\x00\x00\x00\x00\x00")
    assert run("store", "dump", str(log.directory), "--from-index", "7") == 1
    assert "orders sequence=9" in run.out
    assert "unknown type 99" in run.err


def test_a_destination_that_is_none_is_wrong_usage(log, run) -> None:
    """
    Composite names do not stand in the log.
    """
    assert run("store", "dump", str(log.directory), "--destination", "a,b") == 2
    assert run.err.startswith("holdfast: destination: ")


@pytest.fixture
def half_filled(tmp_path):
    """A data directory whose log was begun anew and is not full; three entries are kept."""
    log = LocalJournal(RealDisk(), directory=tmp_path / "data")
    for _ in range(3):
        log.append(b"old")
    target = Target(index=60, record=500, timestamp=1_800_000_000_000_000)
    log.perform(log.journal.stage_reset(50, 1, b"c" * 16, 450, target))
    log.append(b"new")
    log.close()
    return log


def test_a_kept_log_is_taken_back(half_filled, run) -> None:
    """
    The operator states what it is for; afterwards the old log is the log.
    """
    directory = str(half_filled.directory)
    assert run("store", "take-back", directory, "--yes") == 0
    assert "entry 3" in run.err
    assert "promote NAME --force" in run.out
    half_filled._open()
    assert (1, 3) == (half_filled.journal.first_index, half_filled.journal.last_index)
    assert run("store", "take-back", directory, "--yes") != 0
    assert "stop it first" in run.err
    half_filled.close()
    assert run("store", "take-back", directory, "--yes") != 0
    assert "keeps no older log" in run.err


def test_without_the_operators_word_nothing_is_taken_back(half_filled, run, monkeypatch) -> None:
    """
    A node that goes on as one of several would have broken its word to the others.
    """
    monkeypatch.setattr("typer.confirm", lambda text, **_: False)
    assert run("store", "take-back", str(half_filled.directory)) == 1
    half_filled._open()
    assert 50 == half_filled.journal.first_index


def test_only_a_data_directory_is_taken_back(run, tmp_path) -> None:
    """
    The error names the directory.
    """
    assert run("store", "take-back", str(tmp_path / "nowhere"), "--yes") != 0
    assert "is no data directory" in run.err


def test_a_kept_log_is_given_up(half_filled, run, monkeypatch) -> None:
    """
    Only with the operator's word, on a stopped node, and where there is one.
    """
    directory = str(half_filled.directory)
    with monkeypatch.context() as silent:
        silent.setattr("typer.confirm", lambda text, **_: False)
        assert run("store", "give-up-older", directory) == 1
    half_filled._open()
    assert half_filled.journal.filling.kept is not None
    assert run("store", "give-up-older", directory, "--yes") != 0
    assert "stop it first" in run.err
    half_filled.close()

    assert run("store", "give-up-older", directory, "--yes") == 0
    assert "no whole copy" in run.err
    half_filled._open()
    assert (50, None) == (half_filled.journal.first_index, half_filled.journal.filling.kept)
    half_filled.close()
    assert run("store", "give-up-older", directory, "--yes") != 0
    assert "keeps no older log" in run.err
