"""
Grants against a naive model: every name is asked of every grant, one by one.

The model knows only what the glossary of patterns says. Some of its names have parts that no
pattern has, and some are longer than each pattern: what a wildcard can ever mean is among them.
"""

from __future__ import annotations

from itertools import product

from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.model.destination import Destination, Kind
from holdfast.model.wildcards import parse_pattern
from holdfast.security.grants import Grant, Grants, Right, read_grant
from holdfast.security.verdicts import judge

LENGTH_MAX = 3
"""Of the patterns; names are longer by two."""
KINDS = {"queue": Kind.QUEUE, "topic": Kind.TOPIC}

NAMES = [
    ".".join(parts)
    for length in range(1, LENGTH_MAX + 3)
    for parts in product("abz", repeat=length)
]
"""`z` is in no pattern: it stands for all the parts that nobody thought of."""


def means(pattern: str, name: str) -> bool:
    """Say, part by part, whether a pattern means a name."""
    wanted, parts = pattern.split("."), name.split(".")
    for place, part in enumerate(wanted):
        if part == ">":
            return True
        if place >= len(parts) or part not in ("*", parts[place]):
            return False
    return len(parts) == len(wanted)


parts = st.lists(st.sampled_from(["a", "b", "*", "*"]), max_size=LENGTH_MAX)
texts = st.builds(
    lambda own, is_open: ".".join([*own, ">"] if is_open or not own else own), parts, st.booleans()
)
rights = st.sampled_from(["read", "write", "read,write", "admin"])
grants = st.lists(
    st.tuples(st.sampled_from(["r", "s", "t"]), rights, st.sampled_from([*KINDS]), texts),
    max_size=6,
)
roles = st.frozensets(st.sampled_from(["r", "s", "t", "u"]), max_size=3)


def granted(given_: list[tuple[str, str, str, str]]) -> list[Grant]:
    """Make them."""
    return [read_grant(role, right, f"{kind}://{text}") for role, right, kind, text in given_]


@settings(max_examples=150, deadline=None)
@given(grants, roles, st.sampled_from([*Right]), st.sampled_from([*KINDS]))
def test_a_name_is_allowed_if_any_grant_of_any_role_allows_it(
    given_: list[tuple[str, str, str, str]], mine: frozenset[str], right: Right, kind: str
) -> None:
    """And the grant that is named as the deciding one is one that does."""
    access = Grants(granted(given_)).of(mine)
    for name in NAMES[:60]:
        expected = any(
            role in mine and right.value in which.split(",") and of == kind and means(text, name)
            for role, which, of, text in given_
        )
        verdict = judge(access, right, Destination(KINDS[kind], name))
        assert verdict.is_allowed is expected
        for grant in verdict.grants:
            assert grant.role in mine
            assert right in grant.rights
            assert means(grant.pattern.text, name)


@settings(max_examples=400, deadline=None)
@given(st.lists(texts, max_size=5), texts)
@example(["a", "a.*.>"], "a.>")
@example(["*.b", "a.*"], "*.*")
@example(["*.*.>"], ">")
@example(["a.>", "b.>"], "*.>")
def test_a_wildcard_is_covered_exactly_if_every_name_is(granted_: list[str], wanted: str) -> None:
    """Neither is one refused that is covered by several together, nor one let pass that is not."""
    access = Grants(read_grant("r", "read", text) for text in granted_).of(frozenset("r"))
    found = access.covering(Right.READ, parse_pattern(wanted))
    meant = [name for name in NAMES if means(wanted, name)]
    assert bool(found) is all(any(means(text, name) for text in granted_) for name in meant)
    if found:  # And those that are named do it alone.
        deciding = [grant.pattern.text for grant in found]
        assert all(any(means(text, name) for text in deciding) for name in meant)


@settings(max_examples=100, deadline=None)
@given(grants, roles, texts, st.randoms(use_true_random=False))
def test_the_order_of_grants_changes_nothing(
    given_: list[tuple[str, str, str, str]], mine: frozenset[str], wanted: str, random: object
) -> None:
    """Each leader, and who replays the log, names the same grants (S9)."""
    shuffled = list(given_)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = Grants(granted(given_)).of(mine), Grants(granted(shuffled)).of(mine)
    written = Destination(Kind.QUEUE, wanted)
    for right in Right:
        assert judge(one, right, written) == judge(other, right, written)


changes = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.none() | st.tuples(st.sampled_from("rs"), rights, st.sampled_from([*KINDS]), texts),
    ),
    max_size=12,
)


@settings(max_examples=200, deadline=None)
@given(changes, texts)
def test_what_was_granted_and_taken_back_before_changes_nothing(
    changes_: list[tuple[int, tuple[str, str, str, str] | None]], wanted: str
) -> None:
    """Who has followed each change judges as who has read what is left of them (S9)."""
    followed, left = Grants(), {}
    for key, said in changes_:
        grant = None if said is None else granted([said])[0]
        followed.put(key, grant)
        left.pop(key, None)
        if grant is not None:
            left[key] = grant
    both = frozenset("rs")
    one, other = followed.of(both), Grants(left.values()).of(both)
    assert one.is_empty == other.is_empty
    for written in [Destination(kind, name) for kind in KINDS.values() for name in ("a.b", wanted)]:
        for right in Right:
            assert judge(one, right, written) == judge(other, right, written)
