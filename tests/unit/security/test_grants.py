"""Grants: what roles may, and which of several grants decides."""

from __future__ import annotations

import pytest

from holdfast.errors import AccessError
from holdfast.model.destination import Kind
from holdfast.model.wildcards import parse_pattern
from holdfast.security import grants as module
from holdfast.security.grants import Access, Grant, Grants, Right, named, read_grant, read_rights


def access(*patterns: str, rights: str = "read") -> Access:
    """What one role may that was granted these."""
    granted = Grants(read_grant("sales", rights, pattern) for pattern in patterns)
    return granted.of(frozenset({"sales"}))


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


def test_a_grant_that_goes_leaves_what_another_pattern_or_role_grants() -> None:
    """And what stands under a key is replaced as a whole, with the rights that it had."""
    found = Grants()
    roles = frozenset({"a", "b"})

    def deciding(right: Right, name: str = "A.B") -> str:
        return str(found.of(roles).deciding(right, Kind.QUEUE, name))

    found.put(1, read_grant("a", "read,write", "A.B"))
    found.put(2, read_grant("a", "read", "A.>"))
    found.put(3, read_grant("b", "read", "A.B"))
    assert deciding(Right.READ) == "a may read,write queue://A.B"
    found.put(1, read_grant("a", "admin", "A.B"))
    assert deciding(Right.READ) == "b may read queue://A.B"
    assert deciding(Right.WRITE) == "None"
    found.put(3, None)
    assert deciding(Right.READ) == "a may read queue://A.>"
    found.put(2, None)
    found.put(7, None)
    assert deciding(Right.READ) == "None"
    assert not found.of(roles).is_empty
    found.put(1, None)
    assert found.of(roles).is_empty


def test_one_pattern_that_a_log_has_in_two_ways_is_granted_until_both_are_gone() -> None:
    """Another version may write `A` where this one writes `queue://A`."""
    found = Grants()
    found.put("A", read_grant("a", "read,write", "A"))
    found.put("queue://A", read_grant("a", "read", "queue://A"))
    deciding = found.of(frozenset("a")).deciding
    assert str(deciding(Right.READ, Kind.QUEUE, "A")) == "a may read queue://A"
    found.put("queue://A", None)
    assert str(deciding(Right.READ, Kind.QUEUE, "A")) == "a may read,write queue://A"
    found.put("A", None)
    assert deciding(Right.READ, Kind.QUEUE, "A") is None


def test_of_all_grants_to_one_role_the_others_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand may be one role's: each change of one took 0.1 s of the loop."""
    found = Grants(read_grant("a", "read", f"A.{number}") for number in range(500))
    compared: list[Grant] = []
    real = Grant.__str__
    monkeypatch.setattr(module, "_in_order", lambda it: (compared.append(it), real(it))[1])
    found.put("new", read_grant("a", "read", "A.*.>"))
    found.put(7, read_grant("a", "write", "A.7"))
    found.put(8, None)
    assert len(compared) == 2


def test_what_can_be_done_nowhere_is_known() -> None:
    """
    Of any kind of destination, by any of the roles.
    """
    grants = Grants([read_grant("a", "read", "queue://x"), read_grant("b", "write", "topic://y.>")])
    assert not grants.of(frozenset({"a"})).has(Right.WRITE)
    assert grants.of(frozenset({"a", "b"})).has(Right.WRITE)
    assert not grants.of(frozenset()).has(Right.READ)


def test_whether_anything_was_granted_to_a_role_is_known_until_it_is_taken() -> None:
    """
    Whatever right it is, and of whatever.
    """
    grants = Grants()
    grants.put("one", read_grant("a", "read", "queue://x"))
    assert grants.are_any_of(frozenset({"a", "b"}))
    assert not grants.are_any_of(frozenset({"b"}))
    grants.put("one", None)
    assert not grants.are_any_of(frozenset({"a"}))
