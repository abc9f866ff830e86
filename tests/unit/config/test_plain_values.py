"""
What is read without pydantic is what pydantic would have made of it.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from holdfast.admin.counters import DurationStatus
from holdfast.admin.status import DamageStatus, MemberStatus, NodeStatus, StoreStatus, as_json
from holdfast.config.address import Address
from holdfast.config.catalogue import CATALOGUE, SPELLINGS
from holdfast.config.members import parse_member
from holdfast.config.plain_values import UnreadError, plain_value
from holdfast.config.reading import _read_any, _read_plain

VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 7, 64, 10**9, 10**20, -(10**20), 2**53 + 1),
    *(0.0, -0.0, 0.5, 3.0, 1e300, float("inf"), float("nan")),
    *("", " ", "0", "7", "-7", "+7", " 7", "7 ", "007", "1_000", "7.0", "0.25", ".5", "5.", "1e3"),
    *("inf", "nan", "9" * 15, "9" * 16, "9" * 5000, "\u0663", "0x10", "64k", "256MiB", "12q"),
    *("true", "false", "on", "info", "debug", "INFO", "human", "json", "a", "a b", "\udcff"),
    *("a\0b", "/tmp/x", "./x//y/", "h:1", "[::1]:1", "h:99999", "h", "a=h:1", "a=h:1,witness"),
    *(b"7", [], ["a=h:1"], ["x", 5], (), ("x",), ("x", 5), {}, {"name": "a", "address": "h:1"}),
    *([{"name": "a", "address": "h:1"}], Path("x"), Address("h", 1), (parse_member("a=h:1"),)),
    *(dt.date(2026, 1, 1), 7j),
]


@pytest.mark.parametrize("path", CATALOGUE)
def test_a_setting_is_read_as_pydantic_reads_it(path: str) -> None:
    """
    The same value of the same type; or it is left to pydantic, which says what is wrong.
    """
    setting = CATALOGUE[path]
    for value in VALUES:
        try:
            found = _read_plain(setting, value)
        except ValueError:
            continue
        expected = _read_any(setting, value)
        assert (type(expected), repr(expected)) == (type(found), repr(found)), value


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("connections", "7", 7),
        ("connections", 7, 7),
        ("memory", "256MiB", 256 * 1024 * 1024),
        ("heartbeat_seconds", "0.25", 0.25),
        ("heartbeat_seconds", 1, 1.0),
        ("log_level", "debug", "debug"),
        ("name", "a", "a"),
        ("data", "/x", Path("/x")),
        ("secret_file", None, None),
        ("stomp", "h:1", Address("h", 1)),
        ("admin_names", "x", ("x",)),
        ("members", ["a=h:1"], (parse_member("a=h:1"),)),
        ("copies", "2", 2),
    ],
    ids=str,
)
def test_what_people_write_is_plain(path: str, value: object, found: object) -> None:
    """
    Else a node would import pydantic for it.
    """
    assert _read_plain(SPELLINGS[path], value) == found


@pytest.mark.parametrize("kind", [bytes, set[str], tuple[int, str], int | str, dict[str, int]])
def test_a_kind_that_no_setting_has_is_not_read(kind: object) -> None:
    """
    One that is added is pydantic's until somebody has thought about it.
    """
    with pytest.raises(UnreadError):
        plain_value(kind, "7")


STATUS = NodeStatus(
    name="a",
    members=(MemberStatus(name="b"), MemberStatus(name="c")),
    store=StoreStatus(damage=(DamageStatus(segment="s", byte=1, index=2, reason="r"),)),
    refusals={"x": 1},
)


def test_an_answer_of_a_node_is_plain() -> None:
    """
    Every command that asks one would import pydantic for it.
    """
    assert plain_value(NodeStatus, json.loads(json.dumps(as_json(STATUS)))) == STATUS
    assert plain_value(list[MemberStatus], [as_json(it) for it in STATUS.members]) == [
        *STATUS.members
    ]


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "1", "x", [], [[1.5, 2]], {}, {"x": "y"}])
@pytest.mark.parametrize("kind", [NodeStatus, StoreStatus, DurationStatus, MemberStatus])
def test_a_field_is_read_as_pydantic_reads_it(kind: Any, value: object) -> None:
    """
    Whatever another version, or another program on the port, puts there.
    """
    adapter = TypeAdapter(kind)
    usual: dict[str, Any] = {"name": "a"} if kind in {NodeStatus, MemberStatus} else {}
    for name in [*kind.__dataclass_fields__, "invented_later"]:
        answer = {**usual, name: value}
        try:
            found = plain_value(kind, answer)
        except UnreadError:
            continue
        try:
            expected = adapter.validate_python(answer)
        except ValidationError:
            expected = "refused"
        assert repr(expected) == repr(found), name


@pytest.mark.parametrize("answer", [None, [], "a", {}, {"hello": "world"}])
def test_what_lacks_what_it_should_have_is_not_read(answer: object) -> None:
    """
    pydantic says what that is.
    """
    with pytest.raises(UnreadError):
        plain_value(NodeStatus, answer)
