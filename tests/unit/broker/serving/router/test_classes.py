"""
The consumers of one queue by what they want.
"""

from __future__ import annotations

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.router import classes as classes_module
from holdfast.broker.serving.router.classes import Backlog, Classes
from holdfast.broker.serving.subscription import Subscription
from tests.unit.broker.serving.router.wishes import Ledger, Said, Wish


def consumer(new_client, wish: Wish | None) -> Subscription:
    return Subscription(new_client(), "s", mode=AcknowledgeMode.AUTO, prefetch=1, selector=wish)


def test_who_wants_the_same_is_one_class(new_client) -> None:
    """It is there as long as one of them is, and is another one after that."""
    classes = Classes(Ledger())
    first, second = consumer(new_client, Wish("a")), consumer(new_client, Wish("a"))
    plain = consumer(new_client, None)
    made = classes.add(first, 0, 0)
    assert made is not None
    assert classes.add(second, 0, 0) is None
    assert classes.add(plain, 0, 0) is not None
    assert (len(classes), classes.selective_count, made.consumer_count) == (2, 2, 2)
    assert classes.of(second) is made
    assert classes.discard(first) is None
    assert classes.discard(second) is made
    assert made.is_over
    assert classes.add(first, 0, 0) is not made
    assert classes.selective_count == 1


def test_a_message_is_shown_to_those_that_may_want_it(new_client) -> None:
    """By its word; a number may be what any word says; who asks for no word is always asked."""
    classes = Classes(Ledger())
    for wish in (Wish("a"), Wish("b"), Wish("c", is_found_by_word=False), None):
        classes.add(consumer(new_client, wish), 0, 0)
    found = {
        word: [one.key for one in classes.candidates(Said(word=word))]
        for word in ("a", "z", 5, None)
    }
    others = ["c 0", None]
    assert found == {"a": [*others, "a 0"], "z": others, 5: [*others, "a 0", "b 0"], None: others}
    classes.discard(consumer(new_client, Wish("a")))
    assert [one.key for one in classes.candidates(Said(word="a"))] == others


def test_what_stays_is_known_by_its_word(new_client, monkeypatch) -> None:
    """Up to a limit; from where it begins anew what is older is looked through."""
    monkeypatch.setattr(classes_module, "KNOWN_COUNT_MAX", 3)
    ledger = Ledger()
    classes = Classes(ledger)
    made = classes.add(consumer(new_client, Wish("a")), 0, 0)
    unknown = classes.add(consumer(new_client, Wish("a", 2, is_found_by_word=False)), 0, 0)
    assert made is not None
    assert unknown is not None
    for key, word in ((1, "a"), (2, "b"), (-1, "a")):
        classes.note(key, Said(word=word), 5)
    classes.note(3, Said(), 5)
    assert classes.known(made) == (0, (1, -1))
    assert classes.known(unknown) == (None, ())
    classes.forget(1)
    classes.note(4, Said(word=7), 5)
    assert classes.known(made) == (0, (-1, 4))
    assert (ledger.known_count, ledger.discarded) == (3, [])
    classes.note(6, Said(word="a"), 6)
    assert classes.known(made) == (6, (6,))
    assert [len(it) for it in ledger.discarded] == [3, 3]  # It is not freed at once.
    classes.empty()
    assert classes.known(made) == (6, ())
    assert ledger.known_count == 0


def test_what_all_queues_know_is_bounded(new_client, monkeypatch) -> None:
    """Who would know one more begins anew, and may know as much as others have left."""
    monkeypatch.setattr(classes_module, "KNOWN_OF_ALL_MAX", 5)
    ledger = Ledger()
    queues = [Classes(ledger) for _ in range(3)]
    for number, classes in enumerate(queues):
        classes.add(consumer(new_client, Wish("a")), 0, 0)
        for key in range(1, 4):
            classes.note(key, Said(word="a"), 10 * number + key)
            assert ledger.known_count <= 5
    known = [classes.known(next(iter(classes))) for classes in queues]
    assert known == [(0, (1, 2, 3)), (13, (3,)), (23, (3,))]
    for classes in queues:
        classes.empty()
    assert ledger.known_count == 0


def test_a_name_that_nobody_asks_for_makes_place(new_client) -> None:
    """Sixteen selectors of whoever has left made all others be asked of each message, for good."""

    def of_name(name: str) -> Wish:
        wish = Wish("a")
        wish.literal, wish.condition = (name, "a"), name
        return wish

    ledger = Ledger()
    classes = Classes(ledger)
    strangers = [consumer(new_client, of_name(f"n{number}")) for number in range(16)]
    for stranger in strangers:
        classes.add(stranger, 0, 0)
    classes.note(1, Said(n0="a", n1="a"), 2)
    assert ledger.known_count == 2
    seventeenth = consumer(new_client, of_name("late"))
    asked = classes.add(seventeenth, 0, 2)
    assert asked is not None
    assert classes.candidates(Said()) == [asked]
    classes.discard(seventeenth)
    for stranger in strangers:
        classes.discard(stranger)
    found = classes.add(seventeenth, 0, 2)
    assert found is not None
    assert classes.candidates(Said()) == []
    assert classes.candidates(Said(late="a")) == [found]
    assert classes.known(found) == (2, ())
    assert ledger.known_count == 1
    assert [len(it) for it in ledger.discarded] == [1, 1]


def test_a_backlog_is_passed_in_order() -> None:
    """What is in memory only is looked at first, and nothing is given before all of it is."""
    backlog = Backlog(5, 9, [1])
    assert not backlog.is_before(4)
    backlog.shelves.clear()
    assert backlog.is_before(4)
    assert not backlog.is_before(5)
    backlog.keys.append(-1)
    assert not backlog.is_before(4)
