"""A local file system is one machine's: who is the same, who is not, and what cannot be known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.environment.machine import Judgement, Kinship, Machine, judge, this_machine
from holdfast.environment.mounts import MOUNTINFO

FILE = Path("/srv/host")
MACHINE_ID, BOOT_ID = Path("/etc/machine-id"), Path("/proc/sys/kernel/random/boot_id")
BOARD_ID = Path("/sys/class/dmi/id/product_uuid")
ROOT = "22 1 8:1 / / rw - {} /dev/sda1 rw\n"
BOARD = "5f2b8e1c-7c1d-4b3e-9a55-0d3c2b1a4f60"


class Disk:
    """Where one file system says which machine has it."""

    def __init__(self) -> None:
        self.noted: Machine | None = None

    def comes(self, machine: Machine) -> Judgement:
        """A broker starts on this machine."""
        found = judge(machine, self.noted, FILE)
        if found.note is not None:
            self.noted = found.note
        return found


def let_in(disk: Disk, machine: Machine) -> bool:
    found = disk.comes(machine)
    return not found.refusal and not found.doubt


def test_the_first_machine_has_it() -> None:
    """It is noted once, and another machine is told whose it is and what to do."""
    disk = Disk()
    assert disk.comes(Machine("a", "m1", "b1")).note is not None
    assert disk.comes(Machine("a", "m1", "b1")) == Judgement()

    found = disk.comes(Machine("b", "m2", "b2"))
    assert "machine 'a' has it" in found.refusal and "remove /srv/host" in found.refusal
    assert "has the machine id m1, and this is 'b' with the machine id m2" in found.refusal
    assert found.note is None


def test_a_start_is_one_machine_whatever_its_systems_say() -> None:
    """Containers on it, of images with ids of their own and without, and its board."""
    one = Machine("a", "m1", "b1", board=BOARD)
    for other in (
        Machine("c", "", "b1"),
        Machine("c", "m2", "b1"),
        Machine("c", "m2", "b1", board="x"),
    ):
        assert one.kinship(other) is other.kinship(one) is Kinship.SAME
    assert Machine("a", "", "").kinship(Machine("a", "", "")) is Kinship.UNKNOWN


@pytest.mark.parametrize(
    ("one", "other", "kinship"),
    [
        (Machine("a", "m1", "b1"), Machine("x", "m1", "b2"), Kinship.SAME),
        (Machine("a", "m1", "b1"), Machine("a", "m2", "b2"), Kinship.OTHER),
        (Machine("a", "m1", "b1"), Machine("a", "", "b2"), Kinship.UNKNOWN),
        # An image that was built anew, on the same hardware.
        (Machine("a", "m1", "1", (), "h1"), Machine("a", "m2", "2", (), "h1"), Kinship.SAME),
        (Machine("a", "", "1", (), "h1"), Machine("a", "", "2", (), "h1"), Kinship.SAME),
        # One image on two machines, or a system that was copied with its id.
        (Machine("a", "m1", "1", (), "h1"), Machine("a", "m1", "2", (), "h2"), Kinship.OTHER),
        # Only root may read what the hardware says.
        (Machine("a", "m1", "1", (), "h1"), Machine("a", "m1", "2"), Kinship.SAME),
        (Machine("a", "m1", "1", (), "h1"), Machine("a", "m2", "2"), Kinship.OTHER),
        (Machine("a", "", "1", (), "h1"), Machine("a", "m2", "2"), Kinship.UNKNOWN),
        (Machine("a", "m1", "1", ("m3",)), Machine("a", "m2", "2", ("m3",)), Kinship.SAME),
    ],
)
def test_who_is_the_same(one: Machine, other: Machine, kinship: Kinship) -> None:
    """What both say is held against each other, and nothing that only one says."""
    assert one.kinship(other) is other.kinship(one) is kinship


def test_what_one_knows_stays_known() -> None:
    """A broker of root has read what the hardware says; the next one, which may not, keeps it."""
    disk = Disk()
    assert let_in(disk, Machine("a", "m1", "b1", board=BOARD))
    assert let_in(disk, Machine("c", "m1", "b2"))
    assert let_in(disk, Machine("d", "m9", "b3", board=BOARD))
    assert disk.noted == Machine("d", "m9", "b3", ("m1",), BOARD)


def test_what_is_not_known_to_be_one_machine_is_not_put_together() -> None:
    """
    On another machine a container without an id is let in, as nothing is known of it. With what is
    written down for it no other one of that machine came to have the first one's id.
    """
    first, disk = Machine("a", "mA", "b1"), Disk()
    disk.comes(first)
    found = disk.comes(Machine("c", "", "b2"))
    assert "a machine called 'a'" in found.doubt and "cannot be known" in found.doubt
    assert disk.noted == first

    assert disk.comes(Machine("b", "mB", "b2")).refusal
    assert let_in(disk, first)


@pytest.mark.parametrize("again", [Machine("new-name", "", "b2"), Machine("host", "m1", "b2")])
def test_where_nothing_was_known_the_next_one_is_noted(again: Machine) -> None:
    """A container without an id after its machine was started anew: told of once."""
    disk = Disk()
    disk.comes(Machine("3f2a9c01d7e2", "", "b1"))
    assert "'3f2a9c01d7e2'" in disk.comes(again).doubt
    assert disk.comes(again) == Judgement()


def test_only_so_many_builds_are_remembered() -> None:
    """The page that they stand in has an end; the ones that were seen last are kept."""
    disk = Disk()
    for build in range(100):
        assert let_in(disk, Machine("vm", f"{build:032x}", "b1"))
    assert let_in(disk, Machine("vm", f"{95:032x}", "b2"))
    assert disk.comes(Machine("vm", f"{1:032x}", "b3")).refusal


def test_it_is_written_down_whole() -> None:
    """What is read is what was written, also where an earlier version left something out."""
    machine = Machine("a", "m1", "b1", ("m2", "m3"), BOARD)
    assert Machine.of(machine.fields()) == machine
    assert Machine.of(Machine("a", "m1", "b1").fields()) == Machine("a", "m1", "b1")
    assert Machine.of({}) == Machine("", "", "")


def reader(texts: dict[Path, str]) -> Callable[[Path], str]:
    def read(path: Path) -> str:
        try:
            return texts[path]
        except KeyError as error:
            raise FileNotFoundError from error

    return read


def test_what_a_machine_says_of_itself() -> None:
    """All is read, and what is not there, or may not be read, is empty."""
    texts = {MACHINE_ID: "abc\n", BOOT_ID: "x\n", BOARD_ID: BOARD.upper() + "\n"}
    assert this_machine(reader(texts), "a") == Machine("a", "abc", "x", (), BOARD)
    assert this_machine(reader({}), "a") == Machine("a", "", "")
    one = this_machine(reader(texts | {MOUNTINFO: ROOT.format("ext4")}), "a")
    assert one.identity == "abc"


@pytest.mark.parametrize("kind", ["overlay", "fuse.fuse-overlayfs", "tmpfs", "aufs"])
def test_the_id_of_an_image_is_no_machines(kind: str) -> None:
    """It is on each machine that the image runs on; one that was bound in is the machine's."""
    texts = {MACHINE_ID: "abc\n", BOOT_ID: "x\n", MOUNTINFO: ROOT.format(kind)}
    image = this_machine(reader(texts), "a")
    assert image == Machine("a", "", "x")
    bound = texts[MOUNTINFO] + "40 22 8:1 /etc/machine-id /etc/machine-id ro - ext4 /dev/sda1 rw\n"
    assert this_machine(reader(texts | {MOUNTINFO: bound}), "a").identity == "abc"

    disk = Disk()
    assert let_in(disk, replace(image, start="b1"))
    assert disk.comes(replace(image, start="b2")).doubt, "it may be another machine"


def test_an_id_is_judged_by_where_its_link_leads() -> None:
    """In memory it is drawn anew with each start, also where the link to it is on a disk."""
    memory = "41 22 0:20 / /run rw - tmpfs tmpfs rw\n"
    texts = {MACHINE_ID: "abc\n", BOOT_ID: "x\n", MOUNTINFO: ROOT.format("ext4") + memory}
    assert this_machine(reader(texts), "a", lambda path: path).identity == "abc"
    led = this_machine(reader(texts), "a", lambda _: Path("/run/machine-id"))
    assert led.identity == ""

    def round_in_a_circle(_: Path) -> Path:
        raise RuntimeError("a loop")

    assert this_machine(reader(texts), "a", round_in_a_circle).identity == "abc"


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (MACHINE_ID, "uninitialized"),
        (BOARD_ID, "00000000-0000-0000-0000-000000000000"),
        (BOARD_ID, "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"),
        (BOARD_ID, "03000200-0400-0500-0006-000700080009"),
    ],
)
def test_what_many_have_is_no_id(path: Path, said: str) -> None:
    """A system that was not started yet, and boards that were never given one."""
    assert not this_machine(reader({path: said}), "a").is_known
