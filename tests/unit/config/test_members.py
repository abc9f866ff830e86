"""
Members: three spellings of one cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.config.address import Address
from holdfast.config.members import MemberConfig, parse_member
from holdfast.config.node import NodeConfig

THREE = ["a=127.0.0.1:7001", "b=127.0.0.1:7002", "c=127.0.0.1:7003,witness"]


def test_members_read_alike_from_flags_environment_and_file(tmp_path: Path, load: Any) -> None:
    """
    Three spellings of one cluster give the same members.
    """
    file = tmp_path / "holdfast.toml"
    file.write_text(
        'name = "a"\n'
        '[[members]]\nname = "a"\naddress = "127.0.0.1:7001"\n'
        '[[members]]\nname = "b"\naddress = "127.0.0.1:7002"\n'
        '[[members]]\nname = "c"\naddress = "127.0.0.1:7003"\nkind = "witness"\n',
        encoding="utf-8",
    )
    from_flags = load(name="a", members=THREE).members
    from_file = NodeConfig.load(flags={"data": tmp_path}, environment={}, file=file).members
    from_environment = NodeConfig.load(
        flags={"data": tmp_path, "name": "a"}, environment={"HOLDFAST_MEMBERS": " ".join(THREE)}
    ).members
    assert from_flags == from_file == from_environment


def test_a_member_is_read_with_its_options_in_any_order() -> None:
    """
    The text form of `--member` and `cluster add`.
    """
    expected = MemberConfig("c", Address("::1", 7), "learner", "far")
    assert parse_member("c=[::1]:7,learner,site=far") == expected
    assert parse_member("c=[::1]:7, site=far, learner") == expected


@pytest.mark.parametrize(
    "text",
    ["c", "c=h", "=h:1", "c=h:99999", "c=h:1,boss", "c d=h:1", "c=h:1,site=", "c=:1", "c=h:¹"],
)
def test_what_is_no_member_is_refused(text: str) -> None:
    """
    Half of a member is an error, except an empty site, which means none.
    """
    if text == "c=h:1,site=":
        assert parse_member(text).site == ""
        return
    with pytest.raises(ValueError):
        parse_member(text)


def test_members_that_are_not_a_list_are_refused(problems_of: Any) -> None:
    """
    `members = 3` in a file is a mistake like any other.
    """
    assert problems_of(members=3) == ["members: 3 is not a list of members"]
    assert "unknown key 'adress'" in problems_of(members=[{"adress": "h:1"}])[0]
    table = {"name": "a", "address": "h:1", "kind": "boss"}
    assert "kind 'boss' of member 'a'" in problems_of(members=[table])[0]
