"""
Readiness: who does its part in the cluster.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.admin.certificate_status import CertificateStatus
from holdfast.admin.health import readiness
from holdfast.admin.lease_status import ElectorStatus, LeaseStatus
from holdfast.admin.status import AwaitedStatus, MemberStatus, NodeStatus, StoreStatus


@pytest.mark.parametrize(
    ("status", "ready", "reason"),
    [
        (NodeStatus(name="a", role="leader", serving=True), True, "serving clients"),
        (
            NodeStatus(name="a", role="leader", term=3),
            False,
            "leader of term 3, and not serving clients yet",
        ),
        (
            NodeStatus(name="a", role="leader", term=3, store=StoreStatus(unknown_end="mend it")),
            False,
            "mend it",
        ),
        (
            NodeStatus(name="a", role="leader", serving=True, store=StoreStatus(space="low")),
            True,
            "serving clients; publishing is refused until disk space returns",
        ),
        (
            NodeStatus(name="a", members=(MemberStatus(name="a"),), is_cut_short=True),
            False,
            (
                "no leader: a knows of a later generation of the cluster and not of its members: it"
                " was shut out, or ended as an older copy of itself, or a promotion was cut short"
                " here; start it with an empty data directory, or, if all others are lost, promote"
                " it by force"
            ),
        ),
        (
            NodeStatus(name="a", is_cut_short=True),
            False,
            (
                "no leader: a knows of a later generation of the cluster and not of its members: it"
                " was shut out, or ended as an older copy of itself, or a promotion was cut short"
                " here; start it with an empty data directory, or, if all others are lost, promote"
                " it by force"
            ),
        ),
        (
            NodeStatus(
                name="a",
                role="follower",
                leader="b",
                store=StoreStatus(disk_wait_seconds=7.2, disk_hangs=True),
            ),
            False,
            "its disk has got nothing done for 7 s",
        ),
        (
            NodeStatus(
                name="a",
                role="candidate",
                awaits=(
                    AwaitedStatus(name="b", address="h:2", reason="connection refused"),
                    AwaitedStatus(name="c", address="h:3", reason="not met yet"),
                ),
            ),
            False,
            (
                "no leader: a belongs to no cluster yet: it waits for b at h:2 (connection refused)"
                " and c at h:3 (not met yet)"
            ),
        ),
        (
            NodeStatus(
                name="a",
                members=(
                    MemberStatus(name="a", connected=True),
                    MemberStatus(name="b", dead=True, last_seen_seconds=12.4),
                    MemberStatus(name="c", dead=True),
                ),
            ),
            False,
            (
                "no leader: a is connected to 1 of 3 voters, itself included, and 2 are needed; it"
                " does not reach b (last seen 12 s ago) and c"
            ),
        ),
        (
            NodeStatus(
                name="a",
                role="follower",
                leader="b",
                members=(MemberStatus(name="b", connected=True),),
            ),
            True,
            "following b",
        ),
        (
            NodeStatus(name="a", role="witness", leader="b", members=(MemberStatus(name="b"),)),
            False,
            "not in contact with the leader b",
        ),
    ],
)
def test_a_node_is_ready_when_it_serves_or_follows(
    status: NodeStatus, ready: bool, reason: str
) -> None:
    """
    The verdict carries its reason, so that nobody has to guess why an upgrade waits.
    """
    verdict = readiness(status)
    assert (verdict.ready, verdict.reason) == (ready, reason)


@pytest.mark.parametrize(
    ("tls", "state", "is_told"),
    [
        ("peers", "soon", False),
        ("peers", "urgent", True),
        ("peers", "over", True),
        ("outside", "urgent", False),
        ("outside", "over", True),
    ],
)
def test_what_runs_out_is_told_and_makes_nobody_unready(tls, state, is_told) -> None:
    """
    Links that stand go on: to take a node out of service for it would cost what it warns of.
    """
    told = CertificateStatus(tls=tls, kind="certificate", named="a", ends="then", state=state)
    for status in (
        NodeStatus(name="a", role="leader", serving=True),
        NodeStatus(name="a", role="candidate"),
    ):
        before, found = readiness(status), readiness(replace(status, certificates=(told,)))
        assert found.ready == before.ready
        assert found.reason == before.reason + (f"; {told.sentence}" if is_told else "")


def test_a_verdict_is_readable_by_programs() -> None:
    """
    The four fields that /ready answers with.
    """
    members = (MemberStatus(name="a", connected=True), MemberStatus(name="b", connected=True))
    verdict = readiness(NodeStatus(name="a", role="candidate", members=members)).as_json()
    assert verdict == {
        "ready": False,
        "role": "candidate",
        "leader": None,
        "reason": "no leader: a is connected to enough voters (2 of 2), and they have elected none"
        " yet; where that lasts, their logs say why",
    }


def test_an_elector_that_is_away_is_told_and_takes_nobody_out_of_service() -> None:
    """Neither the holder nor who waits: what it costs is time, when a lease is to be taken."""
    elector = ElectorStatus(kind="etcd", place="etcd://e/x", trouble="it is away")
    lease = LeaseStatus(kind="SQLite", place="f", lease_seconds=5, elector=elector)
    holder = NodeStatus(name="a", role="leader", serving=True, lease=lease)
    waits = NodeStatus(name="b", role="standby", lease=lease)

    for status in (holder, waits):
        found = readiness(status)
        assert found.ready
        assert found.reason.endswith("so a takeover takes longer: it is away")
    well = replace(lease, elector=replace(elector, trouble=""))
    assert "serving clients" == readiness(replace(holder, lease=well)).reason
    full = replace(holder, lease=replace(well, refusal="f has no room"))
    assert "publishing is refused: f has no room" in readiness(full).reason
    assert "standby: nobody holds the lease" == readiness(replace(waits, lease=well)).reason
    out = StoreStatus(is_out_of_room=True)
    assert readiness(replace(holder, lease=well, store=out)).reason == "serving clients"
    verdict = readiness(replace(waits, lease=well, store=out))
    assert (verdict.ready, "its --data is full" in verdict.reason) == (False, True)
