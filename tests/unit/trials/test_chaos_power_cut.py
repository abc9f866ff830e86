"""
The durable image against a model: random calls, a SIGKILL, a power cut, and the same is left.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trials.chaos.faulty_disk import FaultyDisk

pytestmark = pytest.mark.slow

NAMES = ["one", "two", "d/three", "d/four"]
PROLOGUE = """
import os, signal
def open_file(name):
    return os.open(name, os.O_RDWR | os.O_CREAT)
def sync(name):
    file = os.open(name, os.O_RDONLY)
    os.fsync(file)
    os.close(file)
os.mkdir("d")
sync(".")
"""
SECTOR = 512


class Drawn(random.Random):
    """Draws the same number again and again."""

    def __init__(self, number: float) -> None:
        super().__init__(0)
        self.number = number

    def random(self) -> float:
        return self.number


class File:
    """A file of the model: what the kernel holds, and what is durable."""

    def __init__(self) -> None:
        self.live = b""
        self.durable = b""

    def write(self, place: int, data: bytes) -> None:
        """Change what the kernel holds."""
        before = self.live.ljust(place, b"\0")
        self.live = before[:place] + data + before[place + len(data) :]

    def settle(self, place: int, past: int) -> None:
        """A synced write: its sectors are durable, and a size that reaches so far."""
        start, stop = place // SECTOR * SECTOR, min(-(-past // SECTOR) * SECTOR, len(self.live))
        durable = self.durable[: len(self.live)].ljust(start, b"\0")
        self.durable = durable[:start] + self.live[start:stop] + durable[stop:]


class Model:
    """A folder with one folder in it; every step gives the code that does the same."""

    def __init__(self, randomness: random.Random) -> None:
        self.randomness = randomness
        self.live: dict[str, File] = {}
        self.durable: dict[str, File] = {}

    def step(self, number: int) -> str:
        """Do something."""
        name = self.randomness.choice(NAMES)
        kinds = [self.write, self.write_durable, self.sync_names]
        if name in self.live:
            kinds += [self.sync, self.truncate, self.rename, self.remove]
        return self.randomness.choice(kinds)(name, number)

    def write(self, name: str, number: int, flags: str = "0") -> str:
        place, repeats = self.randomness.randrange(9000), self.randomness.randrange(1, 900)
        data = b"%06d " % number * repeats
        file = self.live.setdefault(name, File())
        file.write(place, data)
        if flags != "0":
            file.settle(place, place + len(data))
        call = f"os.pwritev(file, [b'{number:06} ' * {repeats}], {place}, {flags})"
        return f"file = open_file({name!r}); {call}; os.close(file)"

    def write_durable(self, name: str, number: int) -> str:
        return self.write(name, number, "os.RWF_DSYNC")

    def sync(self, name: str, number: int) -> str:
        self.live[name].durable = self.live[name].live
        return f"sync({name!r})"

    def truncate(self, name: str, number: int) -> str:
        size = self.randomness.randrange(9000)
        file = self.live[name]
        file.live = file.live[:size].ljust(size, b"\0")
        return f"os.truncate({name!r}, {size})"

    def rename(self, name: str, number: int) -> str:
        target = self.randomness.choice([n for n in NAMES if ("/" in n) == ("/" in name)])
        self.live[target] = self.live.pop(name)
        return f"os.rename({name!r}, {target!r})"

    def remove(self, name: str, number: int) -> str:
        del self.live[name]
        return f"os.unlink({name!r})"

    def sync_names(self, name: str, number: int) -> str:
        for each in NAMES:
            if ("/" in each) == ("/" in name):
                self.durable.pop(each, None)
                if each in self.live:
                    self.durable[each] = self.live[each]
        return "sync('d')" if "/" in name else "sync('.')"


def contents(data: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {
        str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("is_lost", [True, False])
def test_a_power_cut_leaves_what_the_model_says(tmp_path, seed, is_lost):
    """
    With all of the unsynced lost it is the durable state, with nothing lost the last one; and once
    more after that, on the same disk.
    """
    data = tmp_path / "data"
    data.mkdir()
    disk = FaultyDisk(tmp_path / "layer", data)
    model = Model(random.Random(seed))
    for part in range(2):
        code = [model.step(number) for number in range(part * 100, part * 100 + 60)]
        begin = PROLOGUE if part == 0 else PROLOGUE.partition("os.mkdir")[0]
        program = "\n".join([begin, *code, "os.kill(os.getpid(), signal.SIGKILL)"])
        child = subprocess.run(
            [sys.executable, "-ISc", program],
            cwd=data,
            env={**os.environ, **disk.environment()},
            capture_output=True,
            check=False,
        )
        assert child.returncode == -signal.SIGKILL, child.stderr.decode()
        held = {name: file.live for name, file in model.live.items()}
        assert contents(data) == held
        disk.power_cut(Drawn(0.0 if is_lost else 0.4))
        if is_lost:
            held = {name: file.durable for name, file in model.durable.items()}
        assert contents(data) == held
        model.live = {name: File() for name in held}
        for name, file in model.live.items():
            file.live = file.durable = held[name]
        model.durable = dict(model.live)
