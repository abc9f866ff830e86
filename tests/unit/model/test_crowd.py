"""Who is there from where: turns, and who gives way, by sites and their networks."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.crowd import Crowd
from holdfast.model.networks import networks_of

SITE_OF_MANY = [f"2001:db8:1:{number:x}::1" for number in range(6)]


def crowd(*addresses: str) -> Crowd[str]:
    """Give one with one from each of these, called by its address and number."""
    made: Crowd[str] = Crowd()
    for number, address in enumerate(addresses):
        made.add(f"{number}@{address}", address)
    return made


def taken(there: Crowd[str]) -> list[str]:
    """All of them in their turns, by address."""
    return [str(there.take()).partition("@")[2] for _ in range(len(there))]


def test_sites_take_turns_and_within_one_its_networks() -> None:
    """Six networks of one site are no six others, and of them none is before the others."""
    there = crowd(*SITE_OF_MANY[:2], SITE_OF_MANY[0], "10.0.0.1", "10.0.0.1", "::ffff:10.0.0.2")
    one, two = SITE_OF_MANY[:2]
    assert taken(there) == [one, "10.0.0.1", "::ffff:10.0.0.2", two, "10.0.0.1", one]
    assert there.take() is None
    assert not there


def test_who_is_looked_at_stays_and_the_next_turn_is_another_ones() -> None:
    """Whoever finds no place for one goes on with those of another site, and loses nobody."""
    there = crowd(*SITE_OF_MANY[:2], "10.0.0.1", "10.0.0.1")
    seen = [there.look() for _ in range(4)]
    one, two = SITE_OF_MANY[:2]
    assert seen == [f"0@{one}", "2@10.0.0.1", f"1@{two}", "2@10.0.0.1"]
    assert (len(there), there.count_of_sites) == (4, 2)
    assert taken(there) == [one, "10.0.0.1", two, "10.0.0.1"]
    assert (there.look(), there.count_of_sites) == (None, 0)


def test_one_that_is_put_last_is_behind_all_others_of_its_network() -> None:
    """Also in the order of all; turns of networks stay as they are."""
    there = crowd("10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.1")
    there.put_last("0@10.0.0.1")
    assert list(there.of("10.0.0.1")) == ["1@10.0.0.1", "3@10.0.0.1", "0@10.0.0.1"]
    assert list(there) == ["1@10.0.0.1", "2@10.0.0.2", "3@10.0.0.1", "0@10.0.0.1"]
    assert there.take() == "1@10.0.0.1"
    assert there.take() == "2@10.0.0.2"


def test_who_has_more_gives_way_and_nobody_takes_a_place_back() -> None:
    """First of sites, then of networks within a site; where it would be even, nobody does."""
    there = crowd(*SITE_OF_MANY, "10.0.0.1", "10.0.0.1", "10.0.0.1")
    assert list(there.greedier("10.0.0.2")) == [f"0@{SITE_OF_MANY[0]}"]
    assert there.greedier("2001:db8:1:ff::1") == {}, "its site has the most, and each network one"
    there.add("again", SITE_OF_MANY[3])
    assert list(there.greedier("2001:db8:1:ff::1")) == [f"3@{SITE_OF_MANY[3]}", "again"]
    assert there.greedier(SITE_OF_MANY[4]) == {}, "two and two would be two and two"
    assert list(there.of(SITE_OF_MANY[3])) == [f"3@{SITE_OF_MANY[3]}", "again"]
    assert there.fellows(SITE_OF_MANY[3]) == there.of(SITE_OF_MANY[3])
    assert list(there.fellows("2001:db8:1:ff::1")) == [f"0@{SITE_OF_MANY[0]}"]
    assert there.fellows("10.9.9.9") == {}
    assert (there.site_count("2001:db8:1:77::"), there.site_count("::1")) == (7, 0)
    assert there.site_count_max == 7
    assert there.greediest() == there.of(SITE_OF_MANY[3])
    assert not crowd().greediest()


def test_the_next_may_be_whose_site_has_the_fewest_elsewhere() -> None:
    """Then whose network has."""
    under_way = crowd("10.0.0.1", SITE_OF_MANY[0])
    waiting = crowd("10.0.0.1", SITE_OF_MANY[0], SITE_OF_MANY[1], "10.0.0.2")
    order = []
    while (found := waiting.next_of_fewest(under_way)) is not None:
        order.append(found.partition("@")[2])
        waiting.discard(found)
    assert order == ["10.0.0.2", "10.0.0.1", SITE_OF_MANY[1], SITE_OF_MANY[0]]


ADDRESSES = st.sampled_from([*SITE_OF_MANY[:3], "2001:db8:2::1", "10.0.0.1", "10.0.0.2"])


@given(st.lists(st.tuples(st.sampled_from("adtg"), ADDRESSES), max_size=60))
def test_it_counts_as_somebody_who_counts_each_time(steps) -> None:
    """Whatever comes and goes, in whatever order."""
    there: Crowd[int] = Crowd()
    known: dict[int, str] = {}
    for number, (step, address) in enumerate(steps):
        if step == "a":
            there.add(number, address)
            known[number] = address
        elif step == "d" and known:
            assert there.discard(next(iter(known)))
            known.pop(next(iter(known)))
        elif step == "t":
            found = there.take()
            assert (found is None) == (not known)
            known.pop(-1 if found is None else found, None)
        sites = Counter(networks_of(it)[0] for it in known.values())
        networks = Counter(networks_of(it)[1] for it in known.values())
        assert len(there) == len(known)
        assert there.site_count_max == max(sites.values(), default=0)
        assert there.site_count(address) == sites[networks_of(address)[0]]
        group = there.greedier(address)
        if group:
            place = {networks_of(known[it]) for it in group}
            ((site, network),) = place
            assert len(group) == networks[network]
            is_own = site == networks_of(address)[0]
            more, own = (
                (networks[network], networks[networks_of(address)[1]])
                if is_own
                else (sites[site], sites[networks_of(address)[0]])
            )
            assert more > own + 1
    assert not there.discard(-1)
