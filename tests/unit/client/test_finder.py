"""
The finder: when DNS is asked, how long it is waited for, and which addresses come of it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from holdfast.client.discovered import DnsSource, Source
from holdfast.client.failover import FailoverOptions
from holdfast.client.finder import PATIENCE_SECONDS, Finder
from holdfast.client.settings import ClientSettings
from holdfast.client.uri import parse_uri
from holdfast.discovery.candidates import CANDIDATES_MAX, Answer, Candidate, NoAnswer
from holdfast.discovery.question import DnsQuestion
from holdfast.environment.randomness import SystemRandomness

IN_ORDER = FailoverOptions(is_randomized=False)
AWAY = NoAnswer("away")


class Nameserver:
    """Answers what it is told to; while `gate` is closed nobody hears of it."""

    def __init__(self) -> None:
        self.outcomes: dict[str, Answer | NoAnswer] = {}
        self.asked: list[str] = []
        self.gate = threading.Event()
        self.gate.set()

    def look_up(self, question: DnsQuestion, seconds: float) -> Answer | NoAnswer:
        self.asked.append(question.name)
        self.gate.wait(10)
        return self.outcomes.get(question.name, AWAY)

    def tell(self, name: str, *hosts: str, seconds: float = 60.0) -> None:
        found = [Candidate(host, 7, name, priority) for priority, host in enumerate(hosts)]
        self.outcomes[name] = Answer(tuple(found), seconds)


def finder_for(uri: str, served: Nameserver, **settings: Any) -> Finder:
    sources: tuple[Source, ...] = parse_uri(f"discovery:({uri})").sources
    return Finder(sources, IN_ORDER, ClientSettings(**settings), SystemRandomness(), served.look_up)


def age(finder: Finder, seconds: float = 0.0) -> None:
    """Let the time of all answers be over, at once or soon."""
    for asked in finder._asked:
        asked.candidates.due_at = asyncio.get_running_loop().time() + seconds


async def hosts(finder: Finder) -> list[str]:
    return [address.host for address in await finder.find()]


async def test_sources_follow_each_other_as_they_are_written() -> None:
    """Addresses that are there twice are tried once."""
    served = Nameserver()
    served.tell("a.test", "a1", "a2")
    served.tell("b.test", "b1")
    finder = finder_for("dns:a.test,static:(stomp://s:7),dns:b.test,static:(stomp://s:7)", served)
    while finder.problems:
        found = await hosts(finder)
    assert ["a1", "a2", "s", "b1"] == found


async def test_what_was_written_holds_for_all_that_are_found() -> None:
    """TLS, its files, the timeout; the name is that which the source gives, if it is another."""
    served = Nameserver()
    served.outcomes["a.test"] = Answer(
        (Candidate("10.0.0.1", 1, "a.test"), Candidate("n.test", 2, "n.test")), 60.0
    )
    finder = finder_for("dns:a.test?ssl=true&caFile=x&connectionTimeout=500", served)
    one, two = await finder.find()
    for address in (one, two):
        assert address.tls is not None
        assert ("x", 0.5) == (address.tls.ca_file, address.connect_seconds_max)
    assert [("10.0.0.1", 1, "a.test"), ("n.test", 2, "")] == [
        (it.host, it.port, it.name) for it in (one, two)
    ]


async def test_an_answer_is_asked_for_again_when_its_time_is_over() -> None:
    """And not before; who is left out is no more given."""
    served = Nameserver()
    served.tell("a.test", "one", "two")
    finder = finder_for("dns:a.test", served)
    assert ["one", "two"] == await hosts(finder)
    served.tell("a.test", "two", "three")
    assert ["one", "two"] == await hosts(finder)
    assert 1 == len(served.asked)
    age(finder)
    assert ["two", "three"] == await hosts(finder)


async def test_who_is_known_is_given_while_the_nameserver_is_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is warned of once, and told as a problem until it answers."""
    served = Nameserver()
    served.tell("a.test", "one")
    finder = finder_for("dns:a.test", served)
    await finder.find()
    served.outcomes.clear()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "holdfast.client"):
        for _ in range(3):
            age(finder)
            assert ["one"] == await hosts(finder)
    assert ["dns:a.test: away (the 1 candidates of before are kept)"] == caplog.messages
    assert ["dns:a.test: away"] == finder.problems
    served.tell("a.test", "one")
    age(finder)
    await finder.find()
    assert [] == finder.problems


async def test_a_slow_nameserver_keeps_nobody_from_a_known_broker() -> None:
    """Its answer counts from the next pass on, and it is not asked twice meanwhile."""
    served = Nameserver()
    served.tell("a.test", "one")
    finder = finder_for("dns:a.test", served, connect_seconds_max=60.0)
    await finder.find()
    served.tell("a.test", "two")
    served.gate.clear()
    age(finder)
    began = asyncio.get_running_loop().time()
    assert ["one"] == await hosts(finder)
    assert 0.9 * PATIENCE_SECONDS <= asyncio.get_running_loop().time() - began < 5.0
    for _ in range(200):  # It was waited for once, and that is enough.
        assert ["one"] == await hosts(finder)
    assert 2 == len(served.asked)
    served.gate.set()
    while ["one"] == await hosts(finder):
        await asyncio.sleep(0)
    assert ["two"] == await hosts(finder)


async def test_one_source_that_answers_is_enough() -> None:
    """Another that does not is waited for no longer than what is known is worth."""
    served, silent = Nameserver(), Nameserver()
    served.tell("a.test", "one")
    silent.gate.clear()

    def look_up(question: DnsQuestion, seconds: float) -> Answer | NoAnswer:
        return (served if question.name == "a.test" else silent).look_up(question, seconds)

    sources = parse_uri("discovery:(dns:silent.test,dns:a.test)").sources
    settings = ClientSettings(connect_seconds_max=60.0)
    finder = Finder(sources, IN_ORDER, settings, SystemRandomness(), look_up)
    async with asyncio.timeout(5.0):
        assert ["one"] == await hosts(finder)
    assert ["dns:silent.test: it has not answered yet"] == finder.problems
    silent.gate.set()


async def test_where_nothing_is_known_connecting_takes_no_longer_than_it_may() -> None:
    """The loop is free meanwhile, and the asking has a little less time than that."""
    served = Nameserver()
    served.gate.clear()
    finder = finder_for("dns:a.test", served, connect_seconds_max=0.1)
    ticked = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, ticked.set)
    began = asyncio.get_running_loop().time()
    assert [] == await hosts(finder)
    assert 0.09 <= asyncio.get_running_loop().time() - began < 10.0
    assert ticked.is_set()
    assert ["dns:a.test: it has not answered yet"] == finder.problems
    served.gate.set()


async def test_where_nothing_is_known_nobody_is_asked_before_its_rest_is_over() -> None:
    """Passes over nothing are no reason to ask a hundred times a second."""
    served = Nameserver()
    finder = finder_for("dns:a.test", served)
    assert [] == await hosts(finder)
    age(finder, 0.05)
    began = asyncio.get_running_loop().time()
    assert [] == await hosts(finder)
    assert asyncio.get_running_loop().time() - began >= 0.04  # its clock has steps
    assert 2 == len(served.asked)


async def test_a_service_that_is_not_offered_empties_the_list() -> None:
    """On purpose, which is not the same as away; a pass does not wait for its time."""
    served = Nameserver()
    served.tell("a.test", "one")
    finder = finder_for("dns:a.test", served, connect_seconds_max=0.1)
    await finder.find()
    served.outcomes["a.test"] = Answer((), 300.0, ("there is no service",))
    age(finder)
    assert [] == await hosts(finder)
    assert ["dns:a.test: there is no service"] == finder.problems
    assert [] == await hosts(finder)
    assert 2 == len(served.asked)


async def test_more_than_the_most_are_left_out_and_that_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of all sources together; what an answer itself left out is told as well."""
    served = Nameserver()
    served.tell("a.test", *(f"a{number}" for number in range(40)))
    served.tell("b.test", *(f"b{number}" for number in range(40)))
    served.outcomes["c.test"] = Answer((Candidate("c", 1, "c"),), 60.0, ("left out: x",))
    finder = finder_for("dns:a.test,dns:b.test,dns:c.test", served)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "holdfast.client"):
        while finder.problems:
            await finder.find()
        assert await hosts(finder) == (found := await hosts(finder))
    assert (CANDIDATES_MAX, "b23") == (len(found), found[-1])
    last = caplog.messages[-1]
    assert f"discovery: of 81 addresses the first {CANDIDATES_MAX} are used" == last
    assert 1 == caplog.messages.count(last)
    assert "dns:c.test: left out: x" in caplog.messages


async def test_chance_mixes_what_has_the_same_priority() -> None:
    """And addresses that are written down; a source goes before the next one all the same."""
    served = Nameserver()
    served.outcomes["a.test"] = Answer(
        tuple(Candidate(f"a{number}", 1, "a.test", number // 4) for number in range(8)), 60.0
    )
    written = ",".join(f"stomp://s{number}" for number in range(4))
    sources = parse_uri(f"discovery:(dns:a.test,static:({written}))").sources
    finder = Finder(
        sources, FailoverOptions(), ClientSettings(), SystemRandomness(), served.look_up
    )
    orders = set()
    for _ in range(20):
        found = await hosts(finder)
        assert [{*found[at : at + 4]} for at in (0, 4, 8)] == [
            {f"{kind}{number}" for number in range(low, low + 4)}
            for kind, low in (("a", 0), ("a", 4), ("s", 0))
        ]
        orders.add(tuple(found))
    assert len(orders) > 5


async def test_giving_up_leaves_the_question_under_way() -> None:
    """A connection that is closed while it looks ends at once; the next pass hears the answer."""
    served = Nameserver()
    served.tell("a.test", "one")
    served.gate.clear()
    finder = finder_for("dns:a.test", served)
    waiting = asyncio.create_task(finder.find())
    while not served.asked:
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    served.gate.set()
    assert ["one"] == await hosts(finder)
    assert 1 == len(served.asked)


def test_an_answer_after_the_loop_has_ended_disturbs_nobody() -> None:
    """The thread ends by itself."""
    served = Nameserver()
    served.gate.clear()

    async def look() -> None:
        await finder_for("dns:a.test", served, connect_seconds_max=0.01).find()

    asyncio.run(look())
    served.gate.set()
    for thread in threading.enumerate():
        if thread.name == "holdfast-discovery":
            thread.join(10)
            assert not thread.is_alive()


async def test_where_no_thread_can_be_started_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process at its limit: it is a failed pass, and the next one tries again."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    served = Nameserver()
    finder = finder_for("dns:a.test", served)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert [] == await hosts(finder)
    assert "can't start new thread" in finder.problems[0]
    served.tell("a.test", "one")
    age(finder)
    assert ["one"] == await hosts(finder)


async def test_without_a_name_nothing_is_needed() -> None:
    """A failover URI has nothing to find."""
    finder = Finder((), IN_ORDER, ClientSettings(), SystemRandomness())
    assert [] == finder.problems
    assert not any(isinstance(it, DnsSource) for it in finder._sources)
