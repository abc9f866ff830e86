"""
A process that forgets to sync loses its data in a power cut, and one that syncs does not.

The children are tiny: they change files in their data folder and kill themselves with SIGKILL.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trials.chaos import faulty_disk
from trials.chaos.faulty_disk import FaultyDisk, FaultyDiskError, build_layer

pytestmark = pytest.mark.slow

PRELUDE = """
import os, signal, sys, time
def open_file(name, flags=os.O_RDWR | os.O_CREAT):
    return os.open(name, flags, 0o640)
def sync_folder(name="."):
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)
def begin(name, content):
    file = open_file(name)
    os.pwrite(file, content, 0)
    os.fsync(file)
    sync_folder()
    return file
"""
DEATH = "\nos.kill(os.getpid(), signal.SIGKILL)\n"


class Drawn(random.Random):
    """Draws the same number again and again."""

    def __init__(self, number: float) -> None:
        super().__init__(0)
        self.number = number

    def random(self) -> float:
        return self.number


ALL_LOST = Drawn(0.0)
ALL_KEPT = Drawn(0.4)


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    """The disk of an empty data folder."""
    data = tmp_path / "data"
    data.mkdir()
    return FaultyDisk(tmp_path / "layer", data)


def start(disk: FaultyDisk, code: str) -> subprocess.Popen[bytes]:
    """Start a child on the disk."""
    return subprocess.Popen(
        [sys.executable, "-uISc", PRELUDE + code],
        cwd=disk.data,
        env=disk.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(disk: FaultyDisk, code: str, *, dies: bool = True) -> tuple[str, str]:
    """Run a child to its end, which is a SIGKILL; give what it wrote to both outputs."""
    child = start(disk, code + (DEATH if dies else ""))
    output, complaints = child.communicate(timeout=20)

    assert child.returncode == (-signal.SIGKILL if dies else 0), complaints.decode()
    return output.decode(), complaints.decode()


def content(disk: FaultyDisk, name: str = "file") -> bytes:
    """What a file of the data folder holds."""
    return (disk.data / name).read_bytes()


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def test_the_layer_compiles_without_a_warning(tmp_path, monkeypatch):
    """
    The C is clean under -Wall -Wextra -Werror.
    """
    monkeypatch.setattr(faulty_disk, "FLAGS", (*faulty_disk.FLAGS, "-Wall", "-Wextra", "-Werror"))

    assert build_layer(tmp_path).exists()


def test_a_machine_without_a_compiler_is_told_so(tmp_path, monkeypatch):
    """
    The error names what is missing and how to get it.
    """
    monkeypatch.setattr(shutil, "which", lambda name: None)

    with pytest.raises(FaultyDiskError, match="no compiler was found"):
        build_layer(tmp_path)


def test_what_was_never_synced_is_lost(disk):
    """
    The ablation: a process that forgets the sync loses its data, one that syncs keeps it.
    """
    run(disk, 'file = begin("file", b"a" * 5000); os.pwrite(file, b"b" * 3000, 1000)')

    assert content(disk) == b"a" * 1000 + b"b" * 3000 + b"a" * 1000
    cut = disk.power_cut(ALL_LOST)
    assert content(disk) == b"a" * 5000
    assert cut.files_changed == ["file"]
    assert cut.sectors_lost == 7


@pytest.mark.parametrize("sync", ["os.fsync(file)", "os.fdatasync(file)"])
def test_a_sync_makes_the_whole_file_durable(disk, sync):
    """
    Also what was written by another descriptor, before, and at the file's end.
    """
    code = """
file = begin("file", b"a" * 100)
other = open_file("file", os.O_WRONLY)
os.pwrite(other, b"b" * 9000, 50)
os.close(other)
"""
    run(disk, code + sync)
    cut = disk.power_cut(ALL_LOST)

    assert content(disk) == b"a" * 50 + b"b" * 9000
    assert cut.is_harmless


def test_a_synced_write_makes_its_own_sectors_durable_and_no_others(disk):
    """
    RWF_DSYNC covers the written range, with the sectors it shares, and the size; not the rest.
    """
    code = """
file = begin("file", bytes(8192))
os.pwrite(file, b"x" * 100, 0)
os.pwrite(file, b"y" * 100, 4096)
os.pwritev(file, [b"z" * 50, b"z" * 50], 200, os.RWF_DSYNC)
os.pwritev(file, [b"end"], 10000, os.RWF_DSYNC)
"""
    run(disk, code)
    disk.power_cut(ALL_LOST)
    found = content(disk)

    assert found[:512] == (b"x" * 100 + bytes(100) + b"z" * 100).ljust(512, b"\0")
    assert found[4096:8192] == bytes(4096)
    assert found[10000:] == b"end"


@pytest.mark.parametrize("kind", ["write", "writev", "pwritev"])
def test_every_way_to_write_is_seen(disk, kind):
    """
    By position or not, through a duplicate, appended: a descriptor's O_DSYNC counts, too.
    """
    calls = {
        "write": "os.write(file, part)",
        "writev": "os.writev(file, [part])",
        "pwritev": "os.pwritev(file, [part], at)",
    }
    code = f"""
begin("file", b"")
for flags in (0, os.O_DSYNC):
    file = os.dup(open_file("file", os.O_WRONLY | os.O_APPEND | flags))
    for at in (0, 1):
        part = b"%d" % bool(flags) * 600
        {calls[kind]}
"""
    run(disk, code)

    assert content(disk) == b"0" * 1200 + b"1" * 1200
    disk.power_cut(ALL_LOST)
    # From byte 1200 on, and the sector that byte is in.
    assert content(disk) == bytes(1024) + b"0" * 176 + b"1" * 1200


def test_copies_within_the_kernel_are_seen(disk):
    """
    copy_file_range and sendfile write, too; both are durable only after a sync.
    """
    code = """
source = begin("source", bytes(range(256)) * 64)
for number, name in enumerate(("one", "two", "three", "four")):
    file = begin(name, b"")
    os.lseek(source, 0, 0)
    if number % 2:
        os.copy_file_range(source, file, 16384)
    else:
        os.sendfile(file, source, 0, 16384)
    if number > 1:
        os.fdatasync(file)
"""
    run(disk, code)
    disk.power_cut(ALL_LOST)
    sizes = [len(content(disk, name)) for name in ("one", "two", "three", "four")]

    assert sizes == [0, 0, 16384, 16384]
    assert content(disk, "four") == content(disk, "source")


def test_sizes_are_durable_after_a_sync_only(disk):
    """
    Truncated, truncated at the opening, by path, and allocated: undone, contents and all.
    """
    code = """
for name in ("cut", "opened", "path", "grown"):
    os.close(begin(name, name.encode() * 1000))
os.ftruncate(open_file("cut"), 10)
open_file("opened", os.O_WRONLY | os.O_TRUNC)
os.truncate("path", 7)
os.posix_fallocate(open_file("grown"), 0, 100_000)
"""
    run(disk, code)

    assert [len(content(disk, name)) for name in ("cut", "opened", "path", "grown")] == [
        10, 0, 7, 100_000,
    ]  # fmt: skip
    disk.power_cut(ALL_LOST)
    for name in ("cut", "opened", "path", "grown"):
        assert content(disk, name) == name.encode() * 1000


def test_a_cut_and_grown_file_is_zero_where_it_was_cut(disk):
    """
    After the sync the old bytes must not come back out of the image.
    """
    code = """
file = begin("file", b"a" * 20000)
os.ftruncate(file, 100)
os.ftruncate(file, 20000)
os.fdatasync(file)
"""
    run(disk, code)
    disk.power_cut(ALL_LOST)

    assert content(disk) == (b"a" * 100).ljust(20000, b"\0")


def test_names_are_durable_after_a_sync_of_their_directory_only(disk):
    """
    A file that was synced but whose directory was not, a removal and a new folder are undone.
    """
    code = """
os.close(begin("removed", b"1"))
file = open_file("created")
os.pwrite(file, b"2", 0)
os.fsync(file)
os.unlink("removed")
os.mkdir("folder")
os.close(open_file("folder/inner"))
"""
    run(disk, code)
    cut = disk.power_cut(ALL_LOST)

    assert names(disk.data) == ["removed"]
    assert content(disk, "removed") == b"1"
    assert sorted(cut.names_undone) == ["created", "folder", "folder/inner", "removed"]


def test_a_rename_over_a_file_is_undone_as_a_whole(disk):
    """
    Without a sync of the directory the old file is there again, and the new one under its old name.
    """
    code = """
os.close(begin("file", b"old"))
os.close(begin("draft", b"new"))
os.rename("draft", "file")
"""
    run(disk, code)

    assert content(disk) == b"new"
    disk.power_cut(ALL_LOST)
    assert (content(disk), content(disk, "draft")) == (b"old", b"new")


def test_a_synced_rename_stays_with_the_synced_content(disk):
    """
    Draft, sync, rename, sync of the directory: the way to replace a file.
    """
    code = """
os.close(begin("file", b"old"))
os.mkdir("folder")
sync_folder()
file = open_file("folder/draft")
os.write(file, b"new")
os.fsync(file)
os.rename("folder/draft", "folder/file")
sync_folder("folder")
"""
    run(disk, code)
    cut = disk.power_cut(ALL_LOST)

    assert cut.is_harmless
    assert content(disk, "folder/file") == b"new"
    assert names(disk.data / "folder") == ["file"]


def test_a_file_that_was_renamed_but_never_synced_is_empty(disk):
    """
    The classic mistake: the name is durable and the content is not.
    """
    code = 'os.write(open_file("draft"), b"new"); os.rename("draft", "file"); sync_folder()'
    run(disk, code)
    disk.power_cut(ALL_LOST)

    assert content(disk) == b""


def test_a_removed_file_gives_its_number_away_without_a_trace(disk):
    """
    An inode that is used again must not get the image of the file before it.
    """
    code = """
for number in range(20):
    file = begin("file%d" % number, b"%d" % number * 5000)
    os.close(file)
    os.unlink("file%d" % number)
    if number % 2:
        sync_folder()
file = open_file("last")
sync_folder()
os.write(file, b"unsynced")
"""
    run(disk, code)
    disk.power_cut(ALL_LOST)

    assert content(disk, "last") == b""
    assert names(disk.data) == ["last"]


def test_a_write_can_be_torn_at_any_sector(disk):
    """
    Over some seeds unsynced sectors are seen old and new; nothing else is ever seen.
    """
    outcomes = []
    for seed in range(8):
        run(disk, 'file = begin("file", b"a" * 32768); os.pwrite(file, b"b" * 16384, 2048)')
        disk.power_cut(random.Random(seed))
        found = content(disk)
        sectors = [found[at : at + 512] for at in range(0, 32768, 512)]
        assert set(sectors) <= {b"a" * 512, b"b" * 512}
        assert sectors[:4] + sectors[36:] == [b"a" * 512] * 32
        outcomes.append(sectors.count(b"b" * 512))

    assert min(outcomes) == 0
    assert any(0 < count < 32 for count in outcomes)


def test_an_unsynced_rename_happened_or_did_not(disk):
    """
    Over some seeds: never both names, never none, never a name with the other file's content.
    """
    outcomes = set()
    for seed in range(8):
        code = """
os.close(begin("file", b"old"))
os.close(begin("draft", b"new"))
os.rename("draft", "file")
"""
        run(disk, code)
        disk.power_cut(random.Random(seed))
        outcomes.add((len(names(disk.data)), content(disk)))
        (disk.data / "draft").unlink(missing_ok=True)
        disk.forget()

    assert outcomes == {(1, b"new"), (2, b"old")}


def test_a_lying_disk_makes_nothing_durable_until_it_is_honest(disk):
    """
    All kinds of syncs succeed and prove nothing; the first honest one after them does.
    """
    code = """
file = open_file("file")
os.pwritev(file, [b"a" * 600], 0, os.RWF_DSYNC)
os.pwrite(file, b"b" * 600, 600)
os.fdatasync(file)
sync_folder()
"""
    os.close(os.open(disk.data / "file", os.O_CREAT | os.O_RDWR))
    disk.forget()
    disk.lie(on=True)
    run(disk, code)
    disk.power_cut(ALL_LOST)
    lost = content(disk)
    child = start(disk, code + "print(flush=True); sys.stdin.read(1); os.fsync(file)" + DEATH)
    assert child.stdout is not None
    child.stdout.readline()
    disk.lie(on=False)
    child.communicate(b"go", timeout=20)
    disk.power_cut(ALL_LOST)

    assert lost == b""
    assert content(disk) == b"a" * 600 + b"b" * 600


def test_a_failed_sync_fails_once_and_a_second_one_proves_nothing(disk):
    """
    As in Linux: the pages count as clean after the error, and are not on the disk.
    """
    code = """
file = begin("file", b"a" * 1000)
os.pwrite(file, b"b" * 1000, 0)
try:
    os.fdatasync(file)
except OSError as error:
    print(error.errno)
os.fdatasync(file)
"""
    disk.fail_next_sync()
    code = code.replace('begin("file", b"a" * 1000)', 'open_file("file")')
    (disk.data / "file").write_bytes(b"a" * 1000)
    disk.forget()
    output, _ = run(disk, code)
    disk.power_cut(ALL_LOST)

    assert output == f"{errno.EIO}\n"
    assert content(disk) == b"a" * 1000
    assert disk.counts()["failed"] == 1


def test_a_failed_synced_write_fails_once_and_is_not_durable(disk):
    """
    An RWF_DSYNC write meets the failed sync, too; its bytes are seen, and lost with the power.
    """
    code = """
file = open_file("file")
for part in (b"b", b"c"):
    try:
        os.pwritev(file, [part * 512], 0 if part == b"b" else 4096, os.RWF_DSYNC)
    except OSError as error:
        print(error.errno, os.pread(file, 1, 0))
os.fsync(file)
"""
    (disk.data / "file").write_bytes(b"a" * 4096)
    disk.forget()
    disk.fail_next_sync(errno.EIO)
    output, _ = run(disk, code)
    disk.power_cut(ALL_LOST)

    assert output == f"{errno.EIO} b'b'\n"
    assert content(disk) == b"a" * 4096 + b"c" * 512


def test_a_failed_write_writes_nothing(disk):
    """
    One write fails with the error that was ordered; the file is as it was.
    """
    code = """
file = open_file("file")
for part in (b"b", b"c"):
    try:
        os.pwrite(file, part, 0)
    except OSError as error:
        print(error.errno, os.pread(file, 1, 0))
"""
    disk.fail_next_write(errno.ENOSPC)
    output, _ = run(disk, code)

    assert output == f"{errno.ENOSPC} b''\n"
    assert content(disk) == b"c"


def test_what_the_kernel_holds_survives_a_restart_and_not_a_power_cut(disk):
    """
    A second process sees the unsynced bytes of the first; only if it syncs do they stay.
    """
    for name in ("synced", "unsynced"):
        (disk.data / name).write_bytes(b"a" * 5000)
    disk.forget()
    write = "os.pwrite(open_file({0!r}), b'b' * 5000, 0)\n"
    run(disk, write.format("synced") + write.format("unsynced"))
    run(disk, 'os.fsync(os.open("synced", os.O_RDONLY)); open_file("unsynced")')
    both = content(disk, "synced"), content(disk, "unsynced")
    disk.power_cut(ALL_LOST)

    assert both == (b"b" * 5000, b"b" * 5000)
    assert (content(disk, "synced"), content(disk, "unsynced")) == (b"b" * 5000, b"a" * 5000)


def test_forgetting_makes_everything_durable(disk):
    """
    After `forget` a power cut takes nothing away.
    """
    run(disk, 'os.write(open_file("file"), b"never synced")')
    disk.forget()

    assert disk.power_cut(ALL_LOST).is_harmless
    assert content(disk) == b"never synced"


def test_all_of_the_unsynced_may_survive(disk):
    """
    A power cut need not take anything: then the folder is as the process left it.
    """
    run(disk, 'begin("old", b"1"); os.unlink("old"); os.write(open_file("new"), b"2" * 700)')
    cut = disk.power_cut(ALL_KEPT)

    assert names(disk.data) == ["new"]
    assert content(disk, "new") == b"2" * 700
    assert cut.is_harmless
    assert cut.sectors_kept == 2
    assert cut.names_kept == ["new", "old"]


def test_children_and_other_programs_are_followed(disk):
    """
    A forked child writes through its parent's descriptor; a program started with one does, too.
    """
    code = """
file = begin("file", b"a" * 3000)
os.set_inheritable(file, True)
if os.fork() == 0:
    os.pwrite(file, b"b" * 1000, 0)
    os._exit(0)
os.wait()
program = "import os; os.pwritev(%d, [b'c' * 1000], 2048, os.RWF_DSYNC)" % file
os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-ISc", program])
"""
    run(disk, code)
    disk.power_cut(ALL_LOST)

    assert content(disk) == b"a" * 2048 + b"c" * 1000
    assert disk.counts()["processes"] == 2


def test_what_cannot_be_followed_is_refused(disk):
    """
    A shared writable mapping and a renamed folder fail, are counted, and said on stderr.
    """
    code = """
import mmap
os.mkdir("folder")
file = begin("file", bytes(4096))
mmap.mmap(file, 4096, access=mmap.ACCESS_READ)
for refused in (lambda: mmap.mmap(file, 4096), lambda: os.rename("folder", "elsewhere")):
    try:
        refused()
    except OSError as error:
        print(error.errno)
"""
    output, complaints = run(disk, code)

    assert output == f"{errno.ENOTSUP}\n" * 2
    assert complaints.count("REFUSED") == 2
    assert disk.counts()["refused"] == 2


def test_the_counts_show_that_the_layer_is_in_the_way(disk):
    """
    Writes and syncs of the data folder are counted, those elsewhere are not.
    """
    code = """
file = open_file("file")
os.pwrite(file, b"12345", 0)
os.pwritev(file, [b"67", b"8"], 5, os.RWF_DSYNC)
os.fdatasync(file)
sync_folder()
os.write(open_file("../elsewhere"), b"x")
os.write(1, b"out")
"""
    run(disk, code)
    counts = disk.counts()

    assert counts == {
        "processes": 1, "writes": 2, "syncs": 2, "directory_syncs": 1, "bytes": 8,
        "failed": 0, "refused": 0,
    }  # fmt: skip


def test_a_slow_disk_syncs_slowly(disk):
    """
    Every sync and synced write lasts longer, at once for a process that runs.
    """
    code = """
file = open_file("file")
began = time.monotonic()
os.pwritev(file, [b"1"], 0, os.RWF_DSYNC)
os.fdatasync(file)
print(time.monotonic() - began)
"""
    disk.slow(0.05)
    output, _ = run(disk, code)

    assert float(output) >= 0.1


@pytest.mark.parametrize(("drawn", "found"), [(ALL_LOST, b"a"), (ALL_KEPT, b"b")])
@pytest.mark.parametrize(
    "call", ["os.pwritev(file, [b'b' * 600], 0, os.RWF_DSYNC)", "os.pwrite(file, b'b' * 600, 0)"]
)
def test_a_write_whose_sync_was_killed_may_be_lost(disk, drawn, found, call):
    """
    The bytes are with the kernel and the call has not returned: they are durable or not.
    """
    (disk.data / "file").write_bytes(b"a" * 600)
    disk.forget()
    disk.slow(20)
    child = start(disk, f'file = open_file("file")\n{call}\nprint(flush=True)\nos.fsync(file)')
    while content(disk) != b"b" * 600:
        assert child.poll() is None
    child.kill()
    child.communicate(timeout=20)
    disk.power_cut(drawn)

    assert content(disk) == found * 600


def test_the_clock_steps_and_drifts_and_monotonic_does_not(disk):
    """
    Every way to ask for the wall clock shows it; file times and monotonic time do not.
    """
    code = """
print(time.time(), time.time_ns() / 1e9, time.clock_gettime(time.CLOCK_REALTIME), time.monotonic())
"""
    disk.step_clock(3000)
    disk.step_clock(600, rate=101.0)
    before, now = time.monotonic(), time.time()
    wall = [float(word) for word in run(disk, code)[0].split()]

    assert before < wall[3] < before + 20
    for each in wall[:3]:
        assert now + 3600 < each <= now + 3600 + 20 * 100
    assert disk.clock_error() > 3600
    disk.true_clock()
    assert abs(float(run(disk, code)[0].split()[0]) - time.time()) < 20


def test_a_disk_can_pretend_to_be_almost_full(disk):
    """
    What statvfs says of the data folder is no more than ordered; elsewhere it is the truth.
    """
    code = """
for name in (".", ".."):
    found = os.statvfs(name)
    print(found.f_bavail * found.f_frsize)
"""
    disk.pretend_free(1 << 20)
    pretended, real = (int(line) for line in run(disk, code)[0].split())
    disk.pretend_free(None)

    assert pretended == 1 << 20 < real
    assert int(run(disk, code)[0].split()[0]) > 1 << 20


def test_no_power_is_cut_under_a_running_process(disk):
    """
    Files that a process still writes cannot be put back: it must be dead.
    """
    child = start(disk, "print(flush=True); time.sleep(60)")
    try:
        assert child.stdout is not None
        child.stdout.readline()
        assert disk.is_in_use
        for fault in (lambda: disk.power_cut(ALL_LOST), disk.forget):
            with pytest.raises(FaultyDiskError, match="still uses"):
                fault()
    finally:
        child.kill()
        child.communicate()

    assert not disk.is_in_use


WRITERS = r"""
import threading
SLOTS, SIZE = 4, 1536
files = [begin("file%d" % n, bytes(SIZE * 2)) for n in range(SLOTS)]
shared = open_file("shared")
os.pwrite(shared, bytes(SLOTS * SIZE), 0)
os.fsync(shared)
sync_folder()
def write(slot):
    for count in range(1, 1 << 20):
        part = b"%d %08d " % (slot, count) * 139
        part = part[:SIZE]
        os.pwritev(shared, [part], slot * SIZE, os.RWF_DSYNC)
        os.pwrite(files[slot], part, count % 2 * SIZE)
        if count % 3 == 0:
            os.fdatasync(files[slot])
            os.fdatasync(shared)
            os.write(1, b"%d %d %d\n" % (slot, count, count))
        else:
            os.write(1, b"%d %d 0\n" % (slot, count))
for slot in range(SLOTS):
    threading.Thread(target=write, args=(slot,)).start()
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_at_any_instant_loses_nothing_that_was_synced(disk, seed):
    """
    Four threads write to files of their own and to neighbouring places of one, and say what is
    durable; killed anywhere, each place is as it was said, or later.
    """
    randomness = random.Random(seed)
    child = start(disk, WRITERS)
    assert child.stdout is not None
    # On a busy machine one of the threads may begin late.
    writes, output = [0] * 4, b""
    while min(writes) <= 3:
        line = child.stdout.readline()
        assert line.endswith(b"\n"), "it wrote until it was killed"
        output += line
        writes[int(line.split()[0])] += 1
    output += b"".join(child.stdout.readline() for _ in range(randomness.randrange(240)))
    child.kill()
    rest, complaints = child.communicate(timeout=20)
    synced, stored = [0] * 4, [0] * 4
    for line in (output + rest).decode().splitlines(keepends=True):
        if line.endswith("\n"):
            slot, count, through = (int(word) for word in line.split())
            synced[slot] = max(synced[slot], count)
            stored[slot] = max(stored[slot], through)
    disk.power_cut(randomness)

    assert complaints == b""
    assert min(synced) > 3
    shared = content(disk, "shared")
    for slot in range(4):
        for at in range(slot * 1536, slot * 1536 + 1536, 512):
            numbers = shared[at : at + 512].split()[1:-1]
            assert int(max(n for n in numbers if len(n) == 8)) >= synced[slot]
        own = content(disk, f"file{slot}")
        for half in (own[:1536], own[1536:]):
            for at in range(0, 1536, 512):
                numbers = half[at : at + 512].split()[1:-1]
                assert (
                    int(max((n for n in numbers if len(n) == 8), default=b"0")) >= stored[slot] - 1
                )
