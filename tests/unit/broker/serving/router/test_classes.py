"""
The consumers of one queue by what they want.
"""

from __future__ import annotations

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.router import classes as classes_module
from holdfast.broker.serving.router.classes import Backlog, Classes
from holdfast.broker.serving.subscription import Subscription
from tests.unit.broker.serving.router.wishes import Said, Wish


def consumer(new_client, wish: Wish | None) -> Subscription:
    return Subscription(new_client(), "s", mode=AcknowledgeMode.AUTO, prefetch=1, selector=wish)


def test_who_wants_the_same_is_one_class(new_client) -> None:
    """It is there as long as one of them is, and is another one after that."""
    classes = Classes()
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
    classes = Classes()
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
    classes = Classes()
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
    classes.note(6, Said(word="a"), 6)
    assert classes.known(made) == (6, (6,))
    classes.empty()
    assert classes.known(made) == (6, ())


def test_a_backlog_is_passed_in_order() -> None:
    """What is in memory only is looked at first, and nothing is given before all of it is."""
    backlog = Backlog(5, 9, [1])
    assert not backlog.is_before(4)
    backlog.shelves.clear()
    assert backlog.is_before(4)
    assert not backlog.is_before(5)
    backlog.keys.append(-1)
    assert not backlog.is_before(4)
