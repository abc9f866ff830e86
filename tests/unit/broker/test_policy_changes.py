"""What is said of destinations on the leader becomes records, whole, and in force once applied."""

from __future__ import annotations

import pytest

from holdfast.broker import policy_changes
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import LevelNotReachedError, LimitReachedError, PolicyError
from holdfast.model.policies import FilePolicies
from holdfast.model.records import FormatRecord, PolicyRecord
from holdfast.model.wildcards import parse_pattern

A = parse_pattern("queue://A.>")
B = parse_pattern("queue://B")


@pytest.fixture
def ready(desk):
    """A desk whose log may hold policies."""
    desk.broker.receipts.record(FormatRecord(3))
    desk.turn()
    return desk


def say(desk, pattern=A, receipt=b"r", **values):
    return desk.broker.policy_changes.say(pattern, values, desk.client, receipt)


def take_back(desk, *names, pattern=A):
    return desk.broker.policy_changes.take_back(pattern, names, desk.client, b"t")


def said(desk) -> dict[tuple[int, str], str]:
    records = desk.state.policies.by_key.values()
    return {(each.revision, each.pattern): each.values for each in records}


def test_below_the_level_nothing_is_written(desk) -> None:
    """A member of before would have to refuse the log: the sentence says what is needed."""
    for change in (lambda: say(desk, queuePrefetch=7), lambda: take_back(desk)):
        with pytest.raises(LevelNotReachedError, match=r"need level 3 .* is at level 1: not every"):
            change()
    assert not desk.broker.receipts.has_batch()
    assert not desk.broker.policy_changes.may_be_made


def test_what_is_said_is_told_and_in_force_when_it_is_stored(ready) -> None:
    """Not before: a leader that is deposed has nothing to undo."""
    queue = ready.queue("A.b")
    assert say(ready, queuePrefetch=7) == {"queuePrefetch": 7}
    assert ready.client.replies == []
    assert ready.broker.policies.of(queue).prefetch == 1_000
    ready.turn()
    assert ready.client.replies == [b"r"]
    assert ready.broker.policies.of(queue).prefetch == 7
    ready.fail_over()
    assert ready.broker.policies.of(ready.queue("A.b")).prefetch == 7
    assert digest_of(ready.replayed()) == digest_of(ready.state)


def test_two_changes_at_once_lose_nothing_of_either(ready) -> None:
    """What is on its way counts as said; a record holds all that is said by its pattern."""
    say(ready, queuePrefetch=7)
    assert say(ready, queuePrefix="p.") == {"queuePrefetch": 7, "queuePrefix": "p."}
    ready.seal()
    assert say(ready, queuePrefetch=8) == {"queuePrefetch": 8, "queuePrefix": "p."}
    assert take_back(ready, "queuePrefix") == {"queuePrefetch": 8}
    ready.turn()
    assert said(ready) == {(0, "queue://A.>"): '{"queuePrefetch":8}'}


def test_all_of_a_pattern_is_taken_back(ready) -> None:
    """What a file says of it stays, and what was never said is told."""
    ready.broker.policy_changes.adopt(FilePolicies(2, {"queue://A.>": {"queuePrefetch": 5}}))
    say(ready, queuePrefetch=7, queuePrefix="p.")
    ready.turn()
    with pytest.raises(PolicyError, match=r"queueSuffix is not set for queue://A.> at run time"):
        take_back(ready, "queuePrefetch", "queueSuffix")
    assert take_back(ready) == {}
    ready.turn()
    assert said(ready) == {(2, ""): "", (2, "queue://A.>"): '{"queuePrefetch":5}'}
    with pytest.raises(PolicyError, match=r"nothing is set for queue://A.> at run time"):
        take_back(ready)


def test_nothing_said_is_answered_and_writes_nothing(ready) -> None:
    """As where all keys mean nothing here."""
    assert say(ready) == {}
    ready.turn()
    assert (ready.client.replies, said(ready)) == ([b"r"], {})


def test_a_file_comes_whole_in_one_entry(ready) -> None:
    """In place of what files said before; what an operator said stays."""
    say(ready, queuePrefetch=7)
    changes = ready.broker.policy_changes
    changes.adopt(FilePolicies(2, {"queue://A.>": {"queuePrefetch": 5}, "queue://B": {}}))
    entries = len(ready.log)
    ready.turn()
    assert len(ready.log) == entries + 1
    assert said(ready) == {
        (0, "queue://A.>"): '{"queuePrefetch":7}',
        (2, ""): "",
        (2, "queue://A.>"): '{"queuePrefetch":5}',
    }
    changes.adopt(FilePolicies(3))
    ready.turn()
    assert said(ready) == {(0, "queue://A.>"): '{"queuePrefetch":7}', (3, ""): ""}


def test_there_are_never_more_patterns_than_the_settings_say(new_desk) -> None:
    """Also counting those on their way; what is there can still be changed, and taken back."""
    desk = new_desk(BrokerSettings(policy_count_max=2))
    desk.broker.receipts.record(FormatRecord(3))
    desk.turn()
    desk.broker.receipts.record(PolicyRecord("queue://F", '{"queuePrefetch":5}', 1))
    desk.turn()
    say(desk, queuePrefetch=7)
    with pytest.raises(LimitReachedError, match=r"more than 2 patterns \(broker.policy_count_max"):
        say(desk, B, queuePrefetch=7)
    say(desk, queuePrefetch=8)
    two = {"queue://F": {"queuePrefetch": 5}, "queue://G": {"queuePrefetch": 5}}
    with pytest.raises(LimitReachedError):
        desk.broker.policy_changes.adopt(FilePolicies(2, two))
    take_back(desk)
    say(desk, B, queuePrefetch=7)
    desk.turn()
    assert said(desk).keys() == {(0, "queue://B"), (1, "queue://F"), (1, "")}


# Circles -----------------------------------------------------------------------------------------


def test_a_file_that_would_close_a_circle_with_an_operators_word_is_refused(ready) -> None:
    """
    Each is right by itself. The file counts once the operator's word is taken back.
    """
    say(ready, pattern=parse_pattern("b"), forwardTo="a")
    file = FilePolicies(2, {"queue://a": {"forwardTo": "b"}})
    with pytest.raises(PolicyError, match=r"in a circle: .*/queue/a"):
        ready.broker.policy_changes.adopt(file)
    ready.turn()
    assert list(said(ready)) == [(0, "queue://b")]
    take_back(ready, pattern=parse_pattern("b"))
    ready.broker.policy_changes.adopt(file)
    ready.turn()
    assert (2, "queue://a") in said(ready)


def test_what_keeps_messages_out_of_a_circle_is_not_taken_back(ready) -> None:
    """
    A more general pattern comes to count. What was said is still there, and may go after that one.
    """
    say(ready, pattern=parse_pattern("orders"), forwardTo="stock.in")
    say(ready, pattern=parse_pattern("stock.in"), forwardTo="", queuePrefetch=3)
    say(ready, pattern=parse_pattern("stock.*"), forwardTo="orders")
    for names in (("forwardTo",), ()):
        with pytest.raises(PolicyError, match="in a circle: "):
            take_back(ready, *names, pattern=parse_pattern("stock.in"))
    take_back(ready, "queuePrefetch", pattern=parse_pattern("stock.in"))
    take_back(ready, pattern=parse_pattern("stock.*"))
    take_back(ready, pattern=parse_pattern("stock.in"))
    ready.turn()
    assert list(said(ready)) == [(0, "queue://orders")]


def test_what_was_judged_in_steps_is_judged_once(ready, monkeypatch) -> None:
    """
    Each step looks at one list; and anew if somebody else has said something meanwhile.
    """
    made = []
    plain = policy_changes.Ways
    monkeypatch.setattr(policy_changes, "Ways", lambda it: made.append(1) or plain(it))
    changes = ready.broker.policy_changes
    for number in range(20):
        say(ready, pattern=parse_pattern(f"p{number}"), forwardTo=f"p{number + 1}")
    made.clear()
    asked = parse_pattern("start"), {"forwardTo": "p0"}
    assert len(list(changes.judge(*asked))) >= 20
    say(ready, pattern=asked[0], **asked[1])
    assert len(made) == 1
    back = parse_pattern("p7"), ["forwardTo"]
    list(changes.judge_back(*back))
    take_back(ready, *back[1], pattern=back[0])
    assert len(made) == 2
    asked = parse_pattern("end"), {"forwardTo": "x"}
    list(changes.judge(*asked))
    say(ready, pattern=parse_pattern("x"), forwardTo="end")
    with pytest.raises(PolicyError, match="circle"):
        say(ready, pattern=asked[0], **asked[1])
