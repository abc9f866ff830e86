"""
The consumers of one queue by what they want: a class for each selector, one for those without.

Ten thousand consumers that wait for answers have ten thousand selectors, each with a part like
`JMSCorrelationID = 'x'`. These are found by what a message says under that name: so a message costs
as much as with one of them. All other selectors are asked of each message.

What stands on the queue and was looked at is known by the same names, up to a limit: so a consumer
that comes finds the answer that was there before without looking through the queue.

Invariants:
    A class is there as long as an open consumer belongs to it.
    What a name's words lead to are all messages at hand that were looked at from `covers_from` on.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Final, Protocol

from holdfast.broker.serving.consumer import Consumer, MessageSelector, Values
from holdfast.broker.serving.router.parked import Heads, Place
from holdfast.broker.serving.router.ranks import Ranks
from holdfast.broker.serving.shelves import Shelves
from holdfast.broker.serving.suspects import Narrowing

KNOWN_COUNT_MAX: Final = 170_000
"""So many words of messages are known on one queue; then it begins anew. With 174,763 their
dictionary grows once more, which takes 8 ms."""

KNOWN_OF_ALL_MAX: Final = 1_000_000
"""So many are known on all queues, which takes 150 MB; who would know one more begins anew."""

_NAME_COUNT_MAX: Final = 16
"""Names by which selectors are found; those with others are asked of each message."""

_NO_TEXT: Final = 1
"""Stands for the hash of a word where a number stands, which may be equal to several texts."""


class Ledger(Protocol):
    """Counts what all queues of a leadership know."""

    known_count: int

    def discard(self, *piles: Collection[object]) -> None:
        """Let go of what may be long, in steps."""


class Backlog:
    """What a class that has come has to look through, of what was looked at before it came."""

    __slots__ = ("end", "keys", "sequence", "shelves")

    def __init__(self, sequence: int, end: int, shelves: Collection[int]) -> None:
        self.sequence = sequence
        """Stored messages before this one are looked at."""
        self.end = end
        """From here on it is asked as all others are."""
        self.shelves = [*shelves]
        """Shelves of what is in memory only that are to be looked at first."""
        self.keys: list[int] = []
        """Those of the last of these, the next at the end."""

    @property
    def left(self) -> int:
        """How many places of stored messages are still to be looked at."""
        return max(0, self.end - self.sequence)

    def is_before(self, order: int) -> bool:
        """Whether all that stands before a place was looked at."""
        return order < self.sequence and not (self.keys or self.shelves)


class ConsumerClass:
    """All consumers of a queue that want the same."""

    __slots__ = (
        "alone",
        "backlog",
        "consumer_count",
        "era",
        "heads",
        "is_over",
        "key",
        "narrowing",
        "number",
        "ranks",
        "selector",
        "turn",
    )

    def __init__(self, selector: MessageSelector | None, era: int, number: int) -> None:
        self.selector = selector
        self.number = number
        """How many of its queue came before."""
        self.key = None if selector is None else selector.condition
        self.ranks = Ranks()
        """Its consumers, by their priority."""
        self.consumer_count = 0
        self.heads = Heads()
        """What is parked and may go to one of them."""
        self.alone = Heads()
        """The same of what is to be sent alone."""
        self.narrowing: Narrowing | None = None
        """Which of them have one message at a time, so that they have that alone."""
        self.backlog: Backlog | None = None
        self.era = era
        """Since when somebody stands in its rings; see `Sifting`."""
        self.is_over = False
        self.turn = 0
        """When one of it had a message last; counted."""

    def __hash__(self) -> int:
        """Give the same in each run: sets of classes are gone through."""
        return self.number

    def has_looked(self, place: Place) -> bool:
        """Whether all that stands before a place was looked at for it."""
        return self.backlog is None or self.backlog.is_before(place.order)

    @property
    def effort(self) -> int:
        """What asking it takes at most, counted in deliveries."""
        return 0 if self.selector is None else self.selector.effort


class _Name:
    """The classes that want a certain word under one name, and the messages that say one."""

    __slots__ = ("by_word", "covers_from", "known", "words")

    def __init__(self, covers_from: int) -> None:
        self.by_word: dict[str, dict[ConsumerClass, None]] = {}
        self.covers_from = covers_from
        """From which stored message on all are known; 0: all, also those in memory only."""
        self.known: dict[int, int | dict[int, None]] = {}
        """Keys of messages by the hash of their word: one, or several. Most words are said once."""
        self.words: Shelves[int] = Shelves()
        """The other way round."""

    def forget(self, key: int) -> bool:
        """Forget a message; whether it was known."""
        word = self.words.take(key)
        if word is None:
            return False
        keys = self.known[word]
        if isinstance(keys, dict):
            del keys[key]
        if not isinstance(keys, dict) or not keys:
            del self.known[word]
        return True

    def note(self, key: int, number: int) -> None:
        """Know a message by the hash of its word."""
        self.words[key] = number
        keys = self.known.setdefault(number, key)
        if isinstance(keys, dict):
            keys[key] = None
        elif keys != key:
            self.known[number] = {keys: None, key: None}

    def find(self, number: int) -> Collection[int]:
        """Give the keys of messages by the hash of their word."""
        keys = self.known.get(number, ())
        return (keys,) if isinstance(keys, int) else keys

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all messages; gives what was long, to be let go of."""
        known = (self.known, self.words)
        self.known, self.words = {}, Shelves()
        return known


class Classes:
    """All classes of one queue."""

    __slots__ = (
        *("_by_key", "_known_count", "_ledger", "_made_count", "_names", "_others"),
        "selective_count",
    )

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._by_key: dict[str | None, ConsumerClass] = {}
        self._names: dict[str, _Name] = {}
        self._others: dict[ConsumerClass, None] = {}
        """Those that are asked of each message."""
        self.selective_count = 0
        """Consumers that do not want everything."""
        self._known_count = self._made_count = 0

    def __iter__(self) -> Iterator[ConsumerClass]:
        return iter(self._by_key.values())

    def __len__(self) -> int:
        return len(self._by_key)

    @property
    def has_equal(self) -> bool:
        """Whether somebody wants everything."""
        return None in self._by_key

    def of(self, consumer: Consumer) -> ConsumerClass:
        """Give the class of an open consumer that has come."""
        selector = consumer.selector
        return self._by_key[None if selector is None else selector.condition]

    def add(self, consumer: Consumer, era: int, cursor: int) -> ConsumerClass | None:
        """Note a consumer that has come; gives its class if that is new."""
        selector = consumer.selector
        self.selective_count += selector is not None
        key = None if selector is None else selector.condition
        found = self._by_key.get(key)
        if found is None:
            made = self._by_key[key] = ConsumerClass(selector, era, self._next_number())
            self._index(made, cursor)
        else:
            made = found
        made.consumer_count += 1
        made.ranks.add(consumer)
        return made if found is None else None

    def _next_number(self) -> int:
        self._made_count += 1
        return self._made_count

    def add_equal(self, count: int, era: int) -> ConsumerClass:
        """Note so many consumers that want everything, before all others."""
        made = self._by_key[None] = ConsumerClass(None, era, self._next_number())
        self._others[made] = None
        made.consumer_count = count
        return made

    def _index(self, made: ConsumerClass, cursor: int) -> None:
        literal = None if made.selector is None else made.selector.literal
        if literal is not None:
            name, word = literal
            index = self._names.get(name)
            if index is None and self._has_place():
                index = self._names[name] = _Name(cursor)
            if index is not None:
                index.by_word.setdefault(word, {})[made] = None
                return
        self._others[made] = None

    def _has_place(self) -> bool:
        """Whether there is place for one more name; one that nobody asks for makes it."""
        if len(self._names) < _NAME_COUNT_MAX:
            return True
        unused = next((name for name, it in self._names.items() if not it.by_word), None)
        if unused is None:
            return False
        index = self._names.pop(unused)
        self._count(-len(index.words))
        self._ledger.discard(*index.empty())
        return True

    def _count(self, change: int) -> None:
        self._known_count += change
        self._ledger.known_count += change

    def discard(self, consumer: Consumer) -> ConsumerClass | None:
        """Note that a consumer is closed; gives its class if that is over."""
        one = self.of(consumer)
        self.selective_count -= one.selector is not None
        one.ranks.discard(consumer)
        one.consumer_count -= 1
        if one.consumer_count:
            return None
        one.is_over = one.heads.is_over = one.alone.is_over = True
        del self._by_key[one.key]
        if self._others.pop(one, one) is one:
            assert one.selector is not None and one.selector.literal is not None
            name, word = one.selector.literal
            by_word = self._names[name].by_word
            del by_word[word][one]
            if not by_word[word]:
                del by_word[word]
        return one

    def candidates(self, values: Values) -> list[ConsumerClass]:
        """Give those that may want a message that says so; the others do not."""
        found = [*self._others]
        for name, index in self._names.items():
            said = values[name]
            if isinstance(said, str):
                found += index.by_word.get(said, ())
            elif said is not None:
                # A number may be equal to several texts.
                found += [one for some in index.by_word.values() for one in some]
        return found

    def note(self, key: int, values: Values, cursor: int) -> None:
        """Know a message that stays by what it says under the names that matter."""
        for name, index in self._names.items():
            said = values[name]
            if said is None:
                continue
            if self._known_count >= KNOWN_COUNT_MAX or (
                self._ledger.known_count >= KNOWN_OF_ALL_MAX
            ):
                self._forget_known(cursor)
            index.note(key, hash(said) if isinstance(said, str) else _NO_TEXT)
            self._count(1)

    def _forget_known(self, cursor: int) -> None:
        for index in self._names.values():
            index.covers_from = cursor
        self._ledger.discard(*self.empty())

    def forget(self, key: int) -> None:
        """Forget a message that is not at hand any more."""
        for index in self._names.values():
            if index.forget(key):
                self._count(-1)

    def known(self, one: ConsumerClass) -> tuple[int | None, Collection[int]]:
        """
        Give what a class may want of all that was looked at: from which sequence on it is known.

        None: nothing is; 0: all, also what is in memory only.
        """
        literal = None if one.selector is None else one.selector.literal
        index = None if literal is None or one in self._others else self._names.get(literal[0])
        if index is None or literal is None:
            return None, ()
        found = (*index.find(hash(literal[1])), *index.find(_NO_TEXT))
        return index.covers_from, found

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all messages; gives what was long, to be let go of."""
        self._count(-self._known_count)
        return tuple(chain.from_iterable(index.empty() for index in self._names.values()))
