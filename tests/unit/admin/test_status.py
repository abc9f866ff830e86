"""
Status values and their JSON.
"""

from __future__ import annotations

import json
from dataclasses import replace

from pydantic import TypeAdapter

from holdfast.admin.status import DamageStatus, MemberStatus, NodeStatus, StoreStatus, as_json


def test_a_status_survives_the_way_through_json() -> None:
    """
    What a node writes is what the command line reads, nested values included.
    """
    damage = DamageStatus(segment="s", byte=1, index=2, reason="r")
    status = NodeStatus(
        name="a", members=(MemberStatus(name="b"),), store=StoreStatus(damage=(damage,))
    )
    read_back = TypeAdapter(NodeStatus).validate_python(json.loads(json.dumps(as_json(status))))
    assert read_back == status


def test_a_status_of_another_version_is_read() -> None:
    """
    Fields that are not known here are skipped, those that are missing have defaults.
    """
    read = TypeAdapter(NodeStatus).validate_python({"name": "a", "invented_later": 1})
    assert read == NodeStatus(name="a")


def test_a_member_is_found_by_name() -> None:
    """
    A leader that is no member, or no leader at all, is no member.
    """
    status = NodeStatus(name="a", members=(MemberStatus(name="b"),))
    assert [status.member(name) for name in ("b", "x", None)] == [status.members[0], None, None]


def test_damage_is_counted_beyond_what_is_told() -> None:
    """
    Mended places do not count; a node of an older version tells no number.
    """
    bad = DamageStatus(segment="s", byte=1, index=9, reason="r")
    told = (bad, replace(bad, index=2), replace(bad, index=1, repaired=True))
    many = StoreStatus(damage=told, damage_count=150)
    assert [each.index for each in many.unrepaired] == [2, 9]
    assert (many.unrepaired_count, StoreStatus(damage=told).unrepaired_count) == (150, 2)
    assert StoreStatus().unrepaired_count == 0
