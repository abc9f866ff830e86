"""A local file system is one machine's (L20, L22)."""

from __future__ import annotations

import pytest

from holdfast.environment.machine import Machine
from holdfast.shared.host_file import why_foreign
from trials.simulation.local_share import LocalShare

A = Machine("a", "m1", "b1")


@pytest.fixture
def share() -> LocalShare:
    share = LocalShare()
    share.log()
    return share


def foreign(share: LocalShare, machine: Machine) -> str:
    return why_foreign(share.disk, share.places, machine)


def test_the_first_machine_has_it(share: LocalShare) -> None:
    """It is noted, and another machine is told whose it is and what to do."""
    assert not foreign(share, A)
    assert not foreign(share, A)

    reason = foreign(share, Machine("b", "m2", "b2"))
    assert "machine 'a' has it" in reason and "remove /share/host" in reason


def test_a_machine_that_was_started_anew_is_the_same(share: LocalShare) -> None:
    """Its id stays; the id of its start is noted anew, and containers know it by that."""
    foreign(share, A)
    assert not foreign(share, Machine("a", "m1", "b9"))
    assert not foreign(share, Machine("container", "", "b9"))
    assert not foreign(share, Machine("container", "", "b10"))
    assert foreign(share, Machine("other", "m2", "b2")) != "", "whose it is stays known"
    assert not foreign(share, A)


def test_images_with_ids_of_their_own_are_one_machine(share: LocalShare) -> None:
    """
    Two brokers on one machine, of two images: after the next start either may come first, and one
    that was built anew is known once it came beside another.
    """
    foreign(share, Machine("vm", "image1", "b1"))
    assert not foreign(share, Machine("vm", "image2", "b1"))
    assert not foreign(share, Machine("vm", "image1", "b2"))
    assert not foreign(share, Machine("vm", "image3", "b2"))
    for start, image in enumerate(("image2", "image3", "image1", "image2"), 3):
        assert not foreign(share, Machine("vm", image, f"b{start}"))

    reason = foreign(share, Machine("vm", "image9", "b9"))
    assert (
        "image2, image1, image3" in reason and "this is 'vm' with the machine id image9" in reason
    )


@pytest.mark.parametrize(
    "again",
    [Machine("new-name", "", "b2"), Machine("b", "", ""), Machine("on the host", "m1", "b2")],
)
def test_a_container_without_an_id_goes_on_after_the_machine_was_started_anew(
    share: LocalShare, caplog: pytest.LogCaptureFixture, again: Machine
) -> None:
    """Its start has another id then, and its name is new: nothing is known, so it is told only."""
    assert not foreign(share, Machine("3f2a9c01d7e2", "", "b1"))
    assert not caplog.messages

    assert not foreign(share, again)
    assert "cannot be known" in caplog.text
    assert "'3f2a9c01d7e2'" in caplog.text
    caplog.clear()
    assert not foreign(share, again)
    assert bool(caplog.messages) is not bool(again.identity or again.start)


def test_a_moved_drive_is_handed_over_by_a_person(share: LocalShare) -> None:
    """Once the file is removed the next machine has it."""
    foreign(share, A)
    share.disk.unlink(share.places.host)

    assert not foreign(share, Machine("b", "m2", "b2"))
