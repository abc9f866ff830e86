"""
What a node asks its leader for others: it never takes the threads of everybody else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.admin import leader_questions
from holdfast.admin.leader_questions import AT_ONCE_MAX, Addressee, LeaderQuestions, NotAsked
from holdfast.admin.remote import Answer
from holdfast.errors import LinkLostError

LEADER = Addressee("b:1", "0b" * 16)
QUEUES = [{"name": f"q{number}", "messages": number} for number in range(100)]


class Leader:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.under_way = self.most = 0
        self.may_answer = asyncio.Event()
        self.answer: Answer | LinkLostError = Answer(200, {"queues": list(QUEUES), "next": None})

    async def ask(self, address: Addressee, method: str, path: str, body: object) -> Answer:
        assert (address, method, body) in {(LEADER, "GET", None), (LEADER, "POST", "change")}
        self.asked.append(path)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.may_answer.wait()
        self.under_way -= 1
        if isinstance(self.answer, LinkLostError):
            raise self.answer
        return self.answer


def with_leader(scenario: Callable[[Leader, LeaderQuestions], Any]) -> Any:
    async def run() -> Any:
        leader = Leader()
        return await scenario(leader, LeaderQuestions(leader.ask))

    return asyncio.run(run())


def test_however_many_ask_few_threads_wait_for_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Each that waits has a thread of those that read the log. Strangers with forty connections made
    a reader of two megabytes wait for 47 s; who finds no turn is told what this node knows.
    """
    monkeypatch.setattr(leader_questions, "TURN_SECONDS_MAX", 0.01)
    monkeypatch.setattr(leader_questions, "TURN_SECONDS_MIN", 0.0)

    async def scenario(leader: Leader, questions: LeaderQuestions) -> None:
        asking = [
            asyncio.create_task(questions.find(LEADER, f"/queues?after={n}")) for n in range(40)
        ]
        _, waiting = await asyncio.wait(asking, timeout=5, return_when="FIRST_COMPLETED")
        while len(waiting) > AT_ONCE_MAX:
            _, waiting = await asyncio.wait(waiting, timeout=5, return_when="FIRST_COMPLETED")
        assert leader.most == AT_ONCE_MAX
        leader.may_answer.set()
        found = [await each for each in asking]
        assert sum(isinstance(each, list) for each in found) == AT_ONCE_MAX
        why = {each.why for each in found if isinstance(each, NotAsked)}
        assert why == {"the leader is asked 2 other questions, and answers none"}
        later = await questions.find(LEADER, "/queues?after=41")
        assert isinstance(later, list), "later there is room again"

    with_leader(scenario)


def test_a_second_has_so_many_turns_however_quick_the_leader_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It remembers each question for two minutes: at some hundred a second it had no room left."""
    monkeypatch.setattr(leader_questions, "TURN_SECONDS_MIN", 0.02)

    async def scenario(leader: Leader, questions: LeaderQuestions) -> None:
        leader.may_answer.set()
        loop = asyncio.get_running_loop()
        began = loop.time()
        found = [questions.find(LEADER, f"/queues?after={number}") for number in range(10)]
        assert all(isinstance(it, list) for it in await asyncio.gather(*found))
        assert loop.time() - began >= 4 * 0.02 - 0.001, "two at once, and ten of them"

    with_leader(scenario)


def test_who_finds_no_turn_is_not_told_that_a_leader_that_answers_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A viewer asks as often as he likes; whoever reads the sentence looks for what is wrong."""
    monkeypatch.setattr(leader_questions, "TURN_SECONDS_MIN", 0.02)
    monkeypatch.setattr(leader_questions, "TURN_SECONDS_MAX", 0.05)

    async def scenario(leader: Leader, questions: LeaderQuestions) -> None:
        leader.may_answer.set()
        found = [questions.find(LEADER, f"/queues?after={number}") for number in range(40)]
        said = await asyncio.gather(*found)
        (why,) = {it.why for it in said if isinstance(it, NotAsked)}
        assert why.startswith("more is asked here than the 20 questions in a second that are")

    with_leader(scenario)


def test_however_many_changes_are_passed_on_few_threads_wait_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    A leader without a quorum takes a minute for each; who finds no turn is told to come later.
    """
    monkeypatch.setattr(leader_questions, "CHANGE_TURN_SECONDS_MAX", 0.01)

    async def scenario(leader: Leader, questions: LeaderQuestions) -> None:
        asked: Any = (LEADER, "POST", "/messages", "change")
        asking = [asyncio.create_task(questions.change(*asked)) for _ in range(20)]
        _, waiting = await asyncio.wait(asking, timeout=5, return_when="FIRST_COMPLETED")
        while len(waiting) > AT_ONCE_MAX:
            _, waiting = await asyncio.wait(waiting, timeout=5, return_when="FIRST_COMPLETED")
        assert leader.most == AT_ONCE_MAX
        question = asyncio.create_task(questions.find(LEADER, "/queues"))
        leader.may_answer.set()
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert sorted({type(it).__name__ for it in found}) == ["Answer", "BusyError"]
        assert sum(isinstance(it, Answer) for it in found) == AT_ONCE_MAX
        assert await question, "questions have turns of their own"
        assert await questions.change(*asked) == leader.answer, "later there is room again"

    with_leader(scenario)


def test_who_asks_the_same_meanwhile_is_given_the_same() -> None:
    """
    Also when the first of them has left.
    """

    async def scenario(leader: Leader, questions: LeaderQuestions) -> None:
        first = asyncio.create_task(questions.find(LEADER, "/queues"))
        second = asyncio.create_task(questions.find(LEADER, "/queues"))
        await asyncio.sleep(0)
        first.cancel()
        leader.may_answer.set()
        pieces = await second
        assert pieces is not None
        assert json.loads(b"".join(pieces)) == {"queues": QUEUES, "next": None}
        assert leader.asked == ["/queues"]

    with_leader(scenario)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (LinkLostError("gone"), "the leader cannot be asked: gone"),
        (Answer(500, {"error": {}}), "the leader refused to answer: "),
        (
            Answer(403, {"error": {"code": "forbidden", "message": "a proof is needed"}}),
            "the leader refused to answer: a proof is needed",
        ),
    ],
)
def test_a_leader_that_gives_no_view_is_told_of(answer: Answer | LinkLostError, why: str) -> None:
    """
    The node's own view is shown then, with why: as of a leader of before that knows no proof.
    """

    async def scenario(leader: Leader, questions: LeaderQuestions) -> None:
        leader.answer = answer
        leader.may_answer.set()
        said = await questions.find(LEADER, "/queues")
        assert isinstance(said, NotAsked)
        assert said.head["own_view"].startswith(why)

    with_leader(scenario)
