"""What is to be made here of ActiveMQ's users, groups and rights."""

from __future__ import annotations

from holdfast.cli.activemq_users import ForeignEntry, ForeignUser, Found, Place
from holdfast.cli.import_plan import Plan, plan_of
from holdfast.security.grants import Right

AT = Place("f", 1)


def entry(*patterns: str, **groups: str) -> ForeignEntry:
    by_right = {right: tuple(groups.get(right.value, "").split()) for right in Right}
    return ForeignEntry(patterns=patterns, groups=by_right, place=AT)


def user(name: str, *groups: str, password: str = "p") -> ForeignUser:
    return ForeignUser(name=name, place=AT, password=password, groups=groups)


def plan(users=(), entries=(), **role_of: str) -> Plan:
    return plan_of(Found(users=list(users), entries=list(entries)), role_of)


def grants(made: Plan) -> list[str]:
    return [str(it) for it in made.grants]


def test_a_group_becomes_the_role_of_its_name() -> None:
    """What several entries say of one pattern is one grant."""
    made = plan(
        [user("ann", "sales", "staff"), user("ben")],
        [
            entry("queue://A.>", "topic://A.>", read="sales", write="sales staff"),
            entry("queue://A.>", admin="sales"),
        ],
    )
    assert grants(made) == [
        "sales may read,write,admin queue://A.>",
        "sales may read,write topic://A.>",
        "staff may write queue://A.>",
        "staff may write topic://A.>",
    ]
    assert [(it.name, it.roles) for it in made.users] == [("ann", ("sales", "staff")), ("ben", ())]
    assert made.left_out == []
    assert "'p'" not in repr(made)


def test_a_group_whose_name_opens_the_admin_port_is_asked_about() -> None:
    """In ActiveMQ a group `admin` may only have meant a queue; here it would govern the cluster."""
    users, entries = [user("ann", "admin", "x")], [entry("queue://>", read="admin x")]
    made = plan(users, entries)
    assert grants(made) == ["x may read queue://>"]
    assert made.users[0].roles == ("x",)
    ((_, why),) = made.left_out
    assert "group admin: that role opens the admin port here; say --role admin=admin" in why
    assert plan(users, entries, admin="admin").users[0].roles == ("admin", "x")
    renamed = plan(users, entries, admin="queue-admins")
    assert renamed.users[0].roles == ("queue-admins", "x")
    assert grants(renamed)[0] == "queue-admins may read queue://>"


def test_everybody_is_every_group_that_is_named() -> None:
    """There is no role that all have: that is said, with the place."""
    made = plan([user("ann", "a"), user("ben", "b")], [entry("queue://Q", read="*", write="c")])
    assert grants(made) == [
        "a may read queue://Q",
        "b may read queue://Q",
        "c may read,write queue://Q",
    ]
    assert "read of * is granted to each of the 3 groups" in made.left_out[0][1]


def test_what_cannot_be_here_is_left_out_and_named() -> None:
    """A name with a colon, a pattern that means nothing, a user who is there twice."""
    made = plan(
        [user("a:b"), user("ann"), user("ann"), user("ben", "g:h", password="x" * 2000)],
        [entry("queue://a.>.b", read="sales"), entry("queue://a", read="g:h")],
    )
    assert [(it.name, it.password, it.roles) for it in made.users] == [
        ("ann", "p", ()),
        ("ben", "", ()),
    ]
    assert grants(made) == []
    told = [why for _, why in made.left_out]
    assert len(told) == 5
    for part in ("a.>.b", "'g:h' cannot be", "'a:b' cannot be", "is there twice", "is too long"):
        assert any(part in why for why in told), part
