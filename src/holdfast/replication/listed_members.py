"""
Who is to be a member, as each node was told at its start, and where two were told otherwise.

Every fresh node founds the cluster by itself, from the list on its own command line: a slip in one
of the lists would make two clusters that know nothing of each other. So a fresh node tells its list
in its hello, and two that differ make no link, and so no cluster. Once there is one the log rules,
and lists may grow old: nobody compares them any more. Pure.

Invariants:
    Both sides say the same sentence.
    What a peer does not tell, as older versions do not, is no difference; nor is a site that one
    list leaves open: its node knows it, and all others learn it from that one.
    So a site that any list gives is the one that its own node gives. Where that one was told of
    none, each founder would take its own list's word, and found another cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from holdfast.replication.membership import Member, Membership
from holdfast.replication.messages import Hello, ListedMember

_DIFFERENCES_MAX = 3
"""So many are told; whoever compares the lists sees the rest."""


def listed(membership: Membership) -> tuple[ListedMember, ...]:
    """The list as it travels; empty for a single node, which needs nobody to agree."""
    if len(membership.members) < 2:
        return ()
    return tuple(ListedMember(it.name, it.address, it.kind, it.site) for it in membership.members)


def completed(membership: Membership, hellos: Mapping[str, Hello]) -> Membership:
    """The same members with the sites that only their own nodes were told."""
    return Membership(tuple(_placed(it, hellos.get(it.name)) for it in membership.members))


def _placed(member: Member, hello: Hello | None) -> Member:
    if member.site or hello is None:
        return member
    return replace(member, site=hello.site)


def is_disputed(membership: Membership, hellos: Iterable[Hello]) -> bool:
    """
    Whether somebody was told of another site than these members have, as their own nodes say them.

    Those two have no link; but a third one may have links with both.
    """
    sites = {it.name: it.site for it in membership.members}
    given = {(it.name, it.site) for hello in hellos for it in hello.listed if it.site}
    return any(site != sites.get(name, site) for name, site in given)


def difference(one: Hello, other: Hello) -> str:
    """In what the lists of two fresh nodes differ, in one sentence; empty if they agree."""
    if not one.listed or not other.listed:
        return ""
    first, second = sorted((one, other), key=lambda hello: hello.name)
    found = list(_differences(first, second))
    if not found:
        return ""
    more = len(found) - _DIFFERENCES_MAX
    told = "; ".join(found[:_DIFFERENCES_MAX]) + (f"; and {more} more" if more > 0 else "")
    return (
        f"{first.name} and {second.name} were started with different members: {told}. No cluster is"
        f" formed: start both with the same list"
    )


def _differences(first: Hello, second: Hello) -> Iterator[str]:
    ours = {it.name: it for it in first.listed}
    theirs = {it.name: it for it in second.listed}
    for name in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(name), theirs.get(name)
        if one is None or other is None:
            there, missing = (first, second) if other is None else (second, first)
            yield f"{name} is a member on {there.name} and not on {missing.name}"
            continue
        for field, value, another in zip(ListedMember._fields, one, other, strict=True):
            is_left_open = field == "site" and (
                (not value and name != first.name) or (not another and name != second.name)
            )
            if value != another and not is_left_open:
                yield (
                    f"the {field} of {name} is {value or 'not given'} on {first.name} and"
                    f" {another or 'not given'} on {second.name}"
                )
