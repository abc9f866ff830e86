"""What is said of destinations on the leader becomes records, whole, and in force once applied."""

from __future__ import annotations

import pytest

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
