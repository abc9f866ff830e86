"""
Who takes connections is not dead, whatever the members know of its admin port.
"""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from holdfast.admin.status import MemberStatus, NodeStatus
from holdfast.cli import silence
from holdfast.cli.silence import require_silence
from holdfast.errors import MembershipError


def cut_off(address: str) -> list[NodeStatus]:
    """What a learner says that never met the voter `a`: it knows nothing but where peers call."""
    members = (
        MemberStatus(name="a", address=address),
        MemberStatus(name="l", kind="learner", address="127.0.0.1:1"),
    )
    return [NodeStatus(name="l", role="learner", members=members)]


def test_a_member_that_was_never_met_is_found_by_its_port_for_peers() -> None:
    """
    Its links may be cut by a wall or by another secret, and it may lead and confirm all the same.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(MembershipError, match=f"a takes connections at {address}"):
            require_silence(cut_off(address), {"l"})
    require_silence(cut_off(address), {"l"})


def test_one_that_goes_on_does_not_answer_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With the admin port at loopback, as is the default, every member gives the same address of it:
    whoever asks there asks the node of its own machine.
    """
    (status,) = cut_off("127.0.0.1:1")
    monkeypatch.setattr(silence, "read_status", lambda _node: status)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        member = MemberStatus(name="a", address=address, admin="127.0.0.1:8161")
        asked = replace(status, members=(member, *status.members[1:]))

        with pytest.raises(MembershipError, match=f"a takes connections at {address}"):
            require_silence([asked], {"l"})
    require_silence([asked], {"l"})


@pytest.mark.parametrize("address", ["", "no-port", "bad..name:1", "127.0.0.1:99999"])
def test_what_is_no_address_is_silent(address: str) -> None:
    """
    A promotion must not fail because of how a dead member was once called.
    """
    require_silence(cut_off(address), {"l"})
