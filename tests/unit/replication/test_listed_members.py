"""Tests of replication/listed_members.py: lists that differ, and what is no difference."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.replication.formation import found, founding_entry, judge
from holdfast.replication.listed_members import completed, difference, listed
from holdfast.replication.membership import Member, Membership
from holdfast.replication.messages import Hello

NAMED = Membership((Member("a", "a:1"), Member("b", "b:1"), Member("c", "c:1")))


def hello(name: str, membership: Membership = NAMED, **fields: str) -> Hello:
    own = membership.get(name)
    made = Hello(
        name,
        name.encode().hex().ljust(32, "0"),
        listed=listed(membership),
        site=own.site if own else "",
    )
    return replace(made, **fields)


def changed(name: str, **fields: str) -> Membership:
    return Membership(
        tuple(replace(it, **fields) if it.name == name else it for it in NAMED.members)
    )


@pytest.mark.parametrize(
    ("there", "sentence"),
    [
        (changed("b", address="b:2"), "the address of b is b:1 on a and b:2 on c"),
        (changed("b", kind="witness"), "the kind of b is voter on a and witness on c"),
        (Membership(NAMED.members[1:]), "a is a member on a and not on c"),
        (Membership((*NAMED.members, Member("d", "d:1"))), "d is a member on c and not on a"),
        (
            Membership((NAMED.members[0], Member("bb", "b:1"), NAMED.members[2])),
            "b is a member on a and not on c; bb is a member on c and not on a",
        ),
    ],
)
def test_a_slip_is_named_on_both_sides(there: Membership, sentence: str) -> None:
    """In the same words, whoever of the two says it."""
    here, other = hello("a"), hello("c", there)

    told = difference(here, other)

    assert told == difference(other, here)
    assert told == (
        f"a and c were started with different members: {sentence}. No cluster is formed: start both"
        " with the same list"
    )


def test_lists_that_agree_are_fine() -> None:
    """In another order too; and what an older version does not tell is no difference."""
    turned = Membership(NAMED.members[::-1])

    assert "" == difference(hello("a"), hello("b", turned))
    assert "" == difference(hello("a"), hello("b", changed("b", kind="witness"), listed=()))


def test_a_list_that_is_quite_another_is_told_in_short() -> None:
    """The first differences, and how many more there are."""
    other = Membership(tuple(Member(name, f"{name}:1") for name in "uvwxyz"))

    assert "; and 6 more. No cluster" in difference(hello("a"), hello("u", other))


def test_a_site_that_only_its_own_node_knows_is_no_difference() -> None:
    """`--site` on each node, and none in the lists: all found the same cluster, with the sites."""
    hellos = {name: hello(name, changed(name, site=f"at-{name}")) for name in "abc"}
    made = []
    for name, own in hellos.items():
        others = {it: each for it, each in hellos.items() if it != name}
        assert not any(difference(own, other) for other in others.values())
        founded = found(changed(name, site=f"at-{name}"), own, others)
        assert founded is not None
        made.append(founding_entry(founded).raw)

    # Who has founded tells no list any more.
    first = found(changed("b", site="at-b"), hellos["b"], {it: hellos[it] for it in "ac"})
    assert first is not None
    formed = replace(hellos["b"], listed=(), cluster_id=first.cluster_id)
    own = changed("a", site="at-a")
    assert first == found(own, hellos["a"], {"b": formed, "c": hellos["c"]})
    assert 1 == len(set(made))
    sites = [it.site for it in completed(NAMED, hellos).members]
    assert ["at-a", "at-b", "at-c"] == sites


def test_sites_that_two_say_otherwise_are_a_difference() -> None:
    """One of the two may be the node itself."""
    told = difference(hello("a", changed("b", site="east")), hello("b", changed("b", site="west")))

    assert "the site of b is east on a and west on b" in told


def test_a_site_that_its_own_node_was_not_told_is_a_difference() -> None:
    """Else whoever was told of it would found another cluster than the one it is about."""
    there = hello("a", changed("b", site="north"))

    told = difference(there, hello("b"))

    assert "the site of b is north on a and not given on b" in told
    assert told == difference(hello("b"), there)
    # The third one has links with both of them; it founds nothing either.
    assert "" == difference(there, hello("c"))
    others = {"a": there, "b": hello("b")}
    assert found(NAMED, hello("c"), others) is None
    assert found(NAMED, hello("c"), {**others, "a": hello("a")}) is not None


def test_fresh_nodes_with_different_lists_make_no_link(member) -> None:
    """For now; and once one of them belongs to a cluster its list, and ours, are old."""
    state = member().state
    state.cluster_id, state.membership = "", None
    own, other = hello("a"), hello("b", changed("c", kind="witness"))

    refusal = judge(state, NAMED, own, other)
    assert refusal is not None and not refusal.is_fenced
    assert "the kind of c is voter on a and witness on b" in refusal.reason
    assert judge(state, NAMED, own, replace(other, cluster_id="cc" * 16)) is None


def test_a_single_node_tells_no_list() -> None:
    """Nobody has to agree."""
    assert () == listed(Membership((Member("a", ""),)))
