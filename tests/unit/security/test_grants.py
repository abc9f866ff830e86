"""Grants: what roles may, and which of several grants decides."""

from __future__ import annotations

import pytest

from holdfast.errors import AccessError
from holdfast.model.destination import Kind
from holdfast.model.wildcards import parse_pattern
from holdfast.security import grants as module
from holdfast.security.grants import Access, Grants, Right, named, read_grant, read_rights


def access(*patterns: str, rights: str = "read") -> Access:
    """What one role may that was granted these."""
    return Access(read_grant("sales", rights, pattern) for pattern in patterns)


def test_a_grant_is_read_as_it_is_written() -> None:
    """Rights with commas between, a pattern in any of its spellings, and a sentence of both."""
    grant = read_grant("sales", "write, read", "/queue/ORDERS.>")
    assert grant.rights == {Right.READ, Right.WRITE}
    assert str(grant) == "sales may read,write queue://ORDERS.>"
    assert named(read_rights("admin,read")) == "read,admin"


@pytest.mark.parametrize(
    ("role", "rights", "pattern", "why"),
    [
        ("sales", "reed", "A", "'reed' is no right; there are read, write, admin"),
        ("sales", "", "A", "'' is no right"),
        ("sales", "read,", "A", "'' is no right"),
        ("a b", "read", "A", "name of a role"),
        ("sales", "read", "A>", "stands at the end"),
        ("sales", "read", "", "0 bytes"),
    ],
)
def test_what_cannot_be_granted_is_refused(role: str, rights: str, pattern: str, why: str) -> None:
    """The sentence says which of the three is wrong."""
    with pytest.raises(AccessError, match=why):
        read_grant(role, rights, pattern)


def test_grants_add_up_and_none_takes_away() -> None:
    """What one role may another role's grants do not make less, whatever they say of it."""
    all_of = Grants(
        [
            read_grant("sales", "read,write", "ORDERS.>"),
            read_grant("audit", "read", "ORDERS.EU"),
            read_grant("other", "admin", "ORDERS.>"),
        ]
    )
    both = all_of.of(frozenset({"sales", "audit"}))
    assert both.deciding(Right.WRITE, Kind.QUEUE, "ORDERS.EU") is not None
    assert both.deciding(Right.READ, Kind.QUEUE, "ORDERS.US") is not None
    assert both.deciding(Right.ADMIN, Kind.QUEUE, "ORDERS.EU") is None
    assert both.deciding(Right.READ, Kind.TOPIC, "ORDERS.EU") is None


def test_who_was_granted_nothing_may_nothing() -> None:
    """Without a role, and with one that has no grant."""
    all_of = Grants([read_grant("sales", "read", ">")])
    for roles in (frozenset[str](), frozenset({"Sales", "sales "})):
        found = all_of.of(roles)
        assert found.deciding(Right.READ, Kind.QUEUE, "A") is None
        assert found.covering(Right.READ, parse_pattern(">")) == ()


def test_the_most_exact_grant_decides_in_whatever_order_they_came() -> None:
    """So two nodes name the same one, whose cleaner may have written them in another order."""
    patterns = [">", "A.*", "A.>", "A.B"]
    for order in (patterns, patterns[::-1]):
        found = access(*order)
        for name, wanted in (("A.B", "A.B"), ("A.C", "A.*"), ("A.C.D", "A.>"), ("B", ">")):
            grant = found.deciding(Right.READ, Kind.QUEUE, name)
            assert grant is not None
            assert grant.pattern.text == wanted


def test_of_the_same_pattern_to_two_roles_the_first_by_name_decides() -> None:
    """Any would do; that it is always the same one is what matters."""
    granted = [read_grant("b", "read", "A"), read_grant("a", "read", "A")]
    for order in (granted, granted[::-1]):
        grant = Grants(order).of(frozenset({"a", "b"})).deciding(Right.READ, Kind.QUEUE, "A")
        assert grant is not None
        assert grant.role == "a"


@pytest.mark.parametrize(
    ("granted", "wanted", "deciding"),
    [
        (["A.>"], "A.*", ["A.>"]),
        (["A.>"], "A.B.>", ["A.>"]),
        (["A.*"], "A.>", []),
        (["A.*", "A"], "A.>", []),
        (["A", "A.*.>"], "A.>", ["A", "A.*.>"]),
        (["A", "A.*", "A.*.*.>"], "A.>", ["A", "A.*", "A.*.*.>"]),
        (["A", "A.*.*.>"], "A.>", []),
        (["A.B", "A.C"], "A.*", []),
        (["*.>"], ">", ["*.>"]),
        (["*", "*.*.>"], ">", ["*", "*.*.>"]),
        (["*.*.>"], ">", []),
        (["*.B"], "A.*", []),
        (["*.B", "A.*"], "*.*", []),
        (["A.B"], "A.B", ["A.B"]),
    ],
)
def test_a_wildcard_must_be_covered_whole(
    granted: list[str], wanted: str, deciding: list[str]
) -> None:
    """Several grants may do that together; a name that nobody ever gave counts as well."""
    found = access(*granted).covering(Right.READ, parse_pattern(wanted))
    assert [grant.pattern.text for grant in found] == deciding


def test_a_wildcard_of_topics_is_not_covered_by_grants_on_queues() -> None:
    """Nor is one right by another."""
    found = access("queue://>", rights="read")
    assert found.covering(Right.READ, parse_pattern("topic://A.>")) == ()
    assert found.covering(Right.WRITE, parse_pattern("queue://A.>")) == ()


def test_sets_of_roles_are_worked_out_once_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand users of one role share it; as many sets as somebody likes do not pile up."""
    monkeypatch.setattr(module, "KNOWN_COUNT_MAX", 2)
    all_of = Grants([read_grant(role, "read", role) for role in "abc"])
    first = all_of.of(frozenset({"a", "unknown"}))
    assert all_of.of(frozenset({"a"})) is first
    assert all_of.of(frozenset({"b"})) is not first
    assert all_of.of(frozenset({"c"})).deciding(Right.READ, Kind.QUEUE, "c") is not None
    assert all_of.of(frozenset({"a"})) is not first


def test_what_has_not_changed_is_not_worked_out_again() -> None:
    """Ten thousand clients are judged again only if a role of theirs has other grants now."""
    before = Grants([read_grant(role, "read", role) for role in "ab"])
    known = before.of(frozenset("a")), before.of(frozenset("b"))
    after = Grants([read_grant("a", "read", "a"), read_grant("b", "write", "b")], before=before)
    assert after.changed_since(before) == {"b"}
    assert after.of(frozenset("a")) is known[0]
    assert after.of(frozenset("b")) is not known[1]
    assert after.of(frozenset("b")).deciding(Right.READ, Kind.QUEUE, "b") is None
    assert Grants().changed_since(before) == {"a", "b"}
    assert before.changed_since(Grants()) == {"a", "b"}
