"""The leased log on a real directory: bounds, refusals and what errors mean."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.environment import bounded
from holdfast.environment.disk import NoRoomError
from holdfast.environment.machine import Machine
from holdfast.environment.shared_disk import RealSharedDisk
from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import HOLDER_LENGTH, LeasedLog, Outcome, Waiter
from holdfast.shared.settings import SharedSettings
from holdfast.shared.shared_log import LEASE_SECONDS_NFS, SharedLog, Surroundings
from trials.simulation.local_share import claimant, end_of, seal

LOCAL = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
SECONDS = 60.0
NFS = "22 1 8:1 / / rw - nfs4 s:/ rw,hard,local_lock=none\n"
SMALL = SharedSettings(segment_bytes=64 * 1024, first_segment_bytes=16 * 1024)


def surroundings(mountinfo: str = LOCAL, machine: str = "m1") -> Surroundings:
    return Surroundings(lambda: mountinfo, lambda: Machine("host", machine, "start"))


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[SharedLog]]:
    monkeypatch.setattr(bounded, "CLOSE_SECONDS_MAX", SECONDS)
    made: list[SharedLog] = []
    yield made
    for log in made:
        log.close()


def opened(logs: list[SharedLog], root: Path, **others) -> SharedLog:
    others.setdefault("surroundings", surroundings())
    log = SharedLog(root / "shared", others.pop("settings", SMALL), **others)
    logs.append(log)
    log.open()
    return log


def test_two_brokers_on_a_real_directory(logs: list[SharedLog], tmp_path: Path) -> None:
    """Take, append, tail, take over, drop, release: as the contract says, on the machine's disk."""
    first: LeasedLog = opened(logs, tmp_path)
    second: LeasedLog = opened(logs, tmp_path)
    assert first.identity() == second.identity()
    assert len(first.identity()) == HOLDER_LENGTH
    holding = first.take(first.observe(SECONDS), claimant("a"), SECONDS)
    assert holding is not None
    entries = seal(holding.end, 1, *[bytes([65 + n]) * 5000 for n in range(20)])
    for entry in entries:
        assert first.append([entry], SECONDS) is Outcome.STORED
    assert second.entries(0, 20, 10**9, SECONDS) == entries

    taken = second.take(second.observe(SECONDS), claimant("b"), SECONDS)
    assert taken is not None
    assert taken.end == end_of(entries)
    assert first.renew(SECONDS) is Outcome.DEPOSED
    more = seal(taken.end, 2, b"more")
    assert second.append(more, SECONDS) is Outcome.STORED
    while second.drop_before(15, SECONDS):
        pass
    second.release(SECONDS)
    seen = first.observe(SECONDS)
    assert (seen.first_index, seen.is_released, seen.end) == (15, True, end_of(more))
    assert first.entries(14, 21, 10**9, SECONDS) == entries[14:] + more
    assert not first.is_fence


def test_brokers_tell_of_themselves(logs: list[SharedLog], tmp_path: Path) -> None:
    """A line for each, until it is forgotten."""
    log = opened(logs, tmp_path)
    line = Waiter(claimant=claimant("a"), known_level=1, beat=1, applied_index=0)
    log.tell(line, SECONDS)
    assert log.waiters(SECONDS) == [line]

    log.forget("a", SECONDS)
    assert log.waiters(SECONDS) == []


def test_the_lock_of_a_real_directory(logs: list[SharedLog], tmp_path: Path) -> None:
    """It is seen from another handle while it is held, and free once its log is closed."""
    first, second = opened(logs, tmp_path), opened(logs, tmp_path)
    holding = first.take(first.observe(SECONDS), claimant("a"), SECONDS)
    assert holding is not None
    assert not second.is_holder_gone(holding, SECONDS)

    first.close()
    assert second.is_holder_gone(holding, SECONDS)


def test_a_medium_that_hangs_does_not_hold_its_caller(
    logs: list[SharedLog], tmp_path: Path
) -> None:
    """The append is not known, and the same again finds that it was stored (L19)."""
    gate, reached = threading.Event(), threading.Event()

    class Hanging(RealSharedDisk):
        hangs = False

        def open(self, path, **others):
            if self.hangs and path.name == "current":
                reached.set()
                gate.wait(SECONDS)
            return super().open(path, **others)

    log = opened(logs, tmp_path, disk=Hanging())
    holding = log.take(log.observe(SECONDS), claimant("a"), SECONDS)
    assert holding is not None
    entries = seal(holding.end, 1, b"x")
    Hanging.hangs = True
    while not reached.is_set():  # On a busy machine it may not even begin in its time.
        with pytest.raises(UnreachableError, match=r"has not answered in 0\.1 s"):
            log.append(entries, 0.1)
    with pytest.raises(UnreachableError, match="was not begun"):
        log.renew(0.1)
    Hanging.hangs = False
    gate.set()

    assert log.append(entries, SECONDS) is Outcome.STORED
    assert log.entries(0, 9, 10**9, SECONDS) == entries


def test_what_is_gone_is_told_with_its_path(logs: list[SharedLog], tmp_path: Path) -> None:
    """The directory is there, and was: no log without entries, and nothing to wait for."""
    log = opened(logs, tmp_path)
    (tmp_path / "shared" / "current").unlink()

    with pytest.raises(StoreError, match=r"current is gone, and the rest of .*shared is there"):
        log.observe(SECONDS)


def test_an_error_of_the_disk_is_not_known(logs: list[SharedLog], tmp_path: Path) -> None:
    """EIO says that the medium is not reached, and where."""

    class Failing(RealSharedDisk):
        fails = False

        def open(self, path, **others):
            if self.fails:
                raise OSError(errno.EIO, "input/output error")
            return super().open(path, **others)

    disk = Failing()
    log = opened(logs, tmp_path, disk=disk)
    Failing.fails = True

    with pytest.raises(UnreachableError, match="shared cannot be reached: input/output error"):
        log.observe(SECONDS)
    Failing.fails = False


def test_want_of_room_is_told_as_that(logs: list[SharedLog], tmp_path: Path) -> None:
    """The directory is reached; and that nothing could be told of a broker is no want of it."""

    class Full(RealSharedDisk):
        fails = False

        def open_through(self, path, **others):
            if self.fails:
                raise NoRoomError(errno.ENOSPC, "no space left on device")
            return super().open_through(path, **others)

    log = opened(logs, tmp_path, disk=Full())
    Full.fails = True
    with pytest.raises(UnreachableError, match=r"has no room \(make some\): no space left on"):
        log.take(log.observe(SECONDS), claimant("a"), SECONDS)
    waiter = Waiter(claimant=claimant("a"), known_level=1, beat=1, applied_index=0)
    with pytest.raises(StoreError, match="shared has no room to tell of broker a: no sp") as raised:
        log.tell(waiter, SECONDS)
    assert not isinstance(raised.value, UnreachableError)
    Full.fails = False


def test_an_unsafe_mount_is_refused_and_nothing_made(tmp_path: Path) -> None:
    """One sentence with the reason and the way to allow it (L20)."""
    soft = NFS.replace("hard", "soft")
    log = SharedLog(tmp_path / "shared", surroundings=surroundings(soft))
    with pytest.raises(StoreError, match=r"cannot be shared safely: .*'soft'.*allow_unsafe_share"):
        log.open()
    log.close()

    assert not (tmp_path / "shared").exists()


def test_an_unsafe_mount_that_is_allowed_is_shown(logs: list[SharedLog], tmp_path: Path) -> None:
    """The warning stays in what the log tells of itself."""
    soft = surroundings(NFS.replace("hard", "soft"))
    log = opened(
        logs, tmp_path, surroundings=soft, settings=SharedSettings(allow_unsafe_share=True)
    )

    facts = log.facts()
    assert facts.kind == "directory on nfs4"
    assert len(facts.warnings) == 1 and "'soft'" in facts.warnings[0]


def test_a_directory_that_does_not_last_is_told(
    logs: list[SharedLog], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R16: what is confirmed on tmpfs, or in a container's own layer, goes with it."""
    memory = surroundings(LOCAL.replace("ext4", "tmpfs"))
    log = opened(logs, tmp_path, surroundings=memory)
    assert [it for it in log.facts().warnings if "shared does not last: it is in memory" in it]
    assert caplog.text.count("does not last") == 1


def test_a_lease_on_nfs_is_longer(logs: list[SharedLog], tmp_path: Path) -> None:
    """A server that starts anew must not cost a takeover; no host is noted there."""
    unopened = SharedLog(tmp_path / "shared", surroundings=surroundings(NFS))
    assert unopened.lease_seconds == LEASE_SECONDS_NFS
    log = opened(logs, tmp_path, surroundings=surroundings(NFS))

    assert log.lease_seconds == LEASE_SECONDS_NFS
    assert not (tmp_path / "shared" / "host").exists()


def test_a_directory_of_another_machine_is_refused(logs: list[SharedLog], tmp_path: Path) -> None:
    """Moved to another host: the sentence says what to do, and then it works (L22)."""
    log = opened(logs, tmp_path)
    holding = log.take(log.observe(SECONDS), claimant("a"), SECONDS)
    assert holding is not None
    entries = seal(holding.end, 1, b"moved")
    log.append(entries, SECONDS)
    elsewhere = surroundings(machine="m2")
    elsewhere = Surroundings(elsewhere.mountinfo, lambda: Machine("other", "m2", "start2"))
    with pytest.raises(StoreError, match="machine 'host' has it"):
        opened(logs, tmp_path, surroundings=elsewhere)

    (tmp_path / "shared" / "host").unlink()
    moved = opened(logs, tmp_path, surroundings=elsewhere)
    taken = moved.take(moved.observe(SECONDS), claimant("b"), SECONDS)
    assert taken is not None
    assert moved.entries(0, 9, 10**9, SECONDS) == entries


def test_the_machine_itself_is_looked_at(tmp_path: Path) -> None:
    """Without other word it is this machine, its table of mounts and its name."""
    found = Surroundings.of_this_machine()

    assert " / " in found.mountinfo()
    assert found.machine().name


def test_a_share_that_is_away_for_a_while_is_waited_for(
    logs: list[SharedLog], tmp_path: Path
) -> None:
    """Mounted anew or moved by hand: not reached meanwhile, then gone on with; who held it holds
    it."""
    log = opened(logs, tmp_path)
    holding = log.take(log.observe(SECONDS), claimant("a"), SECONDS)
    assert holding is not None
    entries = seal(holding.end, 1, b"one", b"two")
    assert log.append(entries[:1], SECONDS) is Outcome.STORED
    (tmp_path / "shared").rename(tmp_path / "moved")
    for _ in range(2):
        with pytest.raises(UnreachableError, match=r"is not there: see whether .* is mounted"):
            log.append(entries[1:], SECONDS)
        with pytest.raises(UnreachableError, match=r"is not there: see whether .* is mounted"):
            log.observe(SECONDS)
    (tmp_path / "moved").rename(tmp_path / "shared")

    assert log.append(entries[1:], SECONDS) is Outcome.STORED
    assert log.entries(0, 9, 10**9, SECONDS) == entries


def test_another_log_in_its_place_is_waited_out(logs: list[SharedLog], tmp_path: Path) -> None:
    """What comes back is not taken for what went, and that is gone on with once it is back."""
    log, root = opened(logs, tmp_path), tmp_path / "shared"
    root.rename(tmp_path / "moved")
    with pytest.raises(UnreachableError):
        log.observe(SECONDS)
    other = opened(logs, tmp_path)

    assert other.identity() != log.identity()
    with pytest.raises(UnreachableError, match=f"has another log now \\({other.identity()}\\)"):
        log.observe(SECONDS)
    root.rename(tmp_path / "other")
    (tmp_path / "moved").rename(root)
    assert log.take(log.observe(SECONDS), claimant("a"), SECONDS) is not None


def test_another_log_that_is_mounted_over_it_is_neither_read_nor_taken(
    logs: list[SharedLog], tmp_path: Path
) -> None:
    """
    Nothing is missing at any moment: it was followed, and its lease taken, as if it was ours.
    """
    log, root = opened(logs, tmp_path), tmp_path / "shared"
    seen = log.observe(SECONDS)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = opened(logs, elsewhere)
    root.rename(tmp_path / "moved")
    (elsewhere / "shared").rename(root)

    for call in (
        lambda: log.observe(SECONDS),
        lambda: log.take(seen, claimant("a"), SECONDS),
    ):
        with pytest.raises(UnreachableError, match="has another log now"):
            call()
    assert other.identity() != log.identity()
    (root / "store").write_bytes(b"?" * 4096)
    with pytest.raises(UnreachableError, match=r"cannot be used now: .*store is damaged"):
        log.observe(SECONDS)
    root.rename(elsewhere / "shared")
    (tmp_path / "moved").rename(root)
    assert log.take(log.observe(SECONDS), claimant("a"), SECONDS) is not None


# A copy of the directory in its place ----------------------------------------------------------


def replace_by_copy(root: Path) -> Path:
    """Do as a person does who brings a backup back; gives where the original is."""
    aside = root.with_name("aside")
    shutil.copytree(root, root.with_name("copy"))
    root.rename(aside)
    root.with_name("copy").rename(root)
    return aside


def test_nothing_is_confirmed_once_a_copy_is_in_the_place(
    logs: list[SharedLog], tmp_path: Path
) -> None:
    """It was, for as long as one liked, into files that nobody reads: the copy has our epoch."""
    log, root = opened(logs, tmp_path), tmp_path / "shared"
    holding = log.take(log.observe(SECONDS), claimant("a"), SECONDS)
    assert holding is not None
    entries = seal(holding.end, 1, b"one", b"two")
    assert log.append(entries[:1], SECONDS) is Outcome.STORED
    aside = replace_by_copy(root)
    before = snapshot(root)
    for _ in range(2):
        for call in (
            lambda: log.append(entries[1:], SECONDS),
            lambda: log.renew(SECONDS),
            lambda: log.drop_before(1, SECONDS),
        ):
            with pytest.raises(
                UnreachableError, match=r"a copy of .*shared, or an older state, ha"
            ):
                call()
    assert snapshot(root) == before, "the copy is left as it is"

    root.rename(tmp_path / "copy")
    aside.rename(root)
    assert log.append(entries[1:], SECONDS) is Outcome.STORED
    assert log.entries(0, 9, 10**9, SECONDS) == entries


def test_a_copy_that_stays_is_taken_by_who_knows_no_more(
    logs: list[SharedLog], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has all that was confirmed; the operator hears of it."""
    log, root = opened(logs, tmp_path), tmp_path / "shared"
    holding = log.take(log.observe(SECONDS), claimant("a"), SECONDS)
    assert holding is not None
    entries = seal(holding.end, 1, b"one")
    assert log.append(entries, SECONDS) is Outcome.STORED
    replace_by_copy(root)

    taken = log.take(log.observe(SECONDS), claimant("a"), SECONDS)
    assert taken is not None
    assert (taken.epoch, taken.end) == (2, end_of(entries))
    assert log.append(seal(taken.end, 2, b"two"), SECONDS) is Outcome.STORED
    assert "leads to another directory than before, with the same log" in caplog.text


def test_an_older_copy_is_no_log_to_take(logs: list[SharedLog], tmp_path: Path) -> None:
    """Who waits and who held it wait for the newer one, each by what it has seen itself."""
    log, other = opened(logs, tmp_path), opened(logs, tmp_path)
    root = tmp_path / "shared"
    holding = log.take(log.observe(SECONDS), claimant("a"), SECONDS)
    assert holding is not None
    shutil.copytree(root, tmp_path / "copy")
    assert log.append(seal(holding.end, 1, b"one"), SECONDS) is Outcome.STORED
    log.renew(SECONDS)
    seen = other.observe(SECONDS)
    root.rename(tmp_path / "aside")
    (tmp_path / "copy").rename(root)

    for who in (log, other):
        with pytest.raises(UnreachableError, match=r"went back in time: .* is waited for"):
            who.observe(SECONDS)
        with pytest.raises(UnreachableError, match="went back in time"):
            who.take(seen, claimant("b"), SECONDS)
    root.rename(tmp_path / "copy")
    (tmp_path / "aside").rename(root)
    assert log.renew(SECONDS) is Outcome.STORED
    assert other.observe(SECONDS).end.index == 1


def test_a_directory_that_is_replaced_during_a_take_is_not_taken(
    logs: list[SharedLog], tmp_path: Path
) -> None:
    """All of the take is in the one where it began; what is there by then is left as it is."""
    root = tmp_path / "shared"

    class Replacing(RealSharedDisk):
        before: dict[str, bytes] | None = None

        def link(self, source, target):
            super().link(source, target)
            if target.name == "claim-1":
                replace_by_copy(root)
                self.before = snapshot(root)

    disk = Replacing()
    log = opened(logs, tmp_path, disk=disk)
    with pytest.raises(UnreachableError, match=r"a copy of .*shared, or an older state, has"):
        log.take(log.observe(SECONDS), claimant("a"), SECONDS)
    assert snapshot(root) == disk.before
    # The claim is in the copy as well, and nobody's any more: the epoch after it is taken.
    assert log.take(log.observe(SECONDS), claimant("a"), SECONDS) is None
    taken = log.take(log.observe(SECONDS), claimant("a"), SECONDS)
    assert taken is not None and taken.epoch == 2


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(it): it.read_bytes() for it in sorted(root.rglob("*")) if it.is_file()}
