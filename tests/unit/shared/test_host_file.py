"""A local file system is one machine's (L20, L22)."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.shared.host_file import Host, this_host, why_foreign
from trials.simulation.local_share import LocalShare

A = Host("a", "m1", "b1")


@pytest.fixture
def share() -> LocalShare:
    share = LocalShare()
    share.log()
    return share


def foreign(share: LocalShare, host: Host) -> str | None:
    return why_foreign(share.disk, share.places, host)


def test_the_first_machine_has_it(share: LocalShare) -> None:
    """It is noted, and another machine is told whose it is and what to do."""
    assert foreign(share, A) is None
    assert foreign(share, A) is None

    reason = foreign(share, Host("b", "m2", "b2"))
    assert reason is not None
    assert "machine 'a' has it" in reason and "remove /share/host" in reason


def test_a_machine_that_was_started_anew_is_the_same(share: LocalShare) -> None:
    """Its id stays; the id of its start is noted anew, and containers know it by that."""
    foreign(share, A)
    assert foreign(share, Host("a", "m1", "b9")) is None
    assert foreign(share, Host("container", "", "b9")) is None
    assert foreign(share, Host("container", "", "b10")) is None
    assert foreign(share, Host("other", "m2", "b2")) is not None, "whose it is stays known"
    assert foreign(share, A) is None


def test_images_with_ids_of_their_own_are_one_machine(share: LocalShare) -> None:
    """
    Two brokers on one machine, of two images: after the next start either may come first, and one
    that was built anew is known once it came beside another.
    """
    foreign(share, Host("vm", "image1", "b1"))
    assert foreign(share, Host("vm", "image2", "b1")) is None
    assert foreign(share, Host("vm", "image1", "b2")) is None
    assert foreign(share, Host("vm", "image3", "b2")) is None
    for start, image in enumerate(("image2", "image3", "image1", "image2"), 3):
        assert foreign(share, Host("vm", image, f"b{start}")) is None

    reason = foreign(share, Host("vm", "image9", "b9"))
    assert reason is not None
    assert "image2, image1, image3" in reason and "this is 'vm' with image9" in reason


def test_only_so_many_builds_are_remembered(share: LocalShare) -> None:
    """The page that they stand in has an end; the ones that were seen last are kept."""
    for build in range(100):
        assert foreign(share, Host("vm", f"{build:032x}", "b1")) is None
    assert foreign(share, Host("vm", f"{95:032x}", "b2")) is None
    assert foreign(share, Host("vm", f"{1:032x}", "b3")) is not None


@pytest.mark.parametrize(
    "again", [Host("new-name", "", "b2"), Host("b", "", ""), Host("on the host", "m1", "b2")]
)
def test_a_container_without_an_id_goes_on_after_the_machine_was_started_anew(
    share: LocalShare, caplog: pytest.LogCaptureFixture, again: Host
) -> None:
    """Its start has another id then, and its name is new: nothing is known, so it is told only."""
    assert foreign(share, Host("3f2a9c01d7e2", "", "b1")) is None
    assert not caplog.messages

    assert foreign(share, again) is None
    assert "cannot be known" in caplog.text
    assert "'3f2a9c01d7e2'" in caplog.text
    caplog.clear()
    assert foreign(share, again) is None
    assert bool(caplog.messages) is not bool(again.machine or again.start)


def test_a_moved_drive_is_handed_over_by_a_person(share: LocalShare) -> None:
    """Once the file is removed the next machine has it."""
    foreign(share, A)
    share.disk.unlink(share.places.host)

    assert foreign(share, Host("b", "m2", "b2")) is None


def test_what_a_machine_says_of_itself() -> None:
    """Both ids are read, and one that is not there is empty."""
    texts = {Path("/etc/machine-id"): "abc\n"}

    def read(path: Path) -> str:
        try:
            return texts[path]
        except KeyError as error:
            raise FileNotFoundError from error

    assert this_host(read, "a") == Host("a", "abc", "")
