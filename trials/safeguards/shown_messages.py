"""
Ablations of what shows messages in a database: what is known of the rows that are there.

Each is lived through in worlds of their own, see `trials.leased.shown_world`.
"""

# ruff: noqa: SLF001 - an ablation replaces what is inside; that is what it is for

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.leases.projection import Span
from holdfast.server import showing_messages
from holdfast.server.showing_messages import ShowingMessages
from holdfast.server.showing_walk import ShowingWalk
from trials.leased.shown_world import live
from trials.safeguards.ablation import Ablation, Patch


def _ask_nothing() -> list[Patch]:
    return [(ShowingMessages, "_take_stock", lambda _self: iter(()))]


def _believe_what_was_lost() -> list[Patch]:
    def whole_look(self: Any) -> Iterator[None]:
        is_whole, self._told_under = self._told_under is None, (0, 0)
        yield from self._look(is_whole=is_whole)

    return [(ShowingWalk, "_whole_look", whole_look)]


def _count_only() -> list[Patch]:
    def mark(lasting: Any) -> tuple[int, ...]:
        return (lasting.index.live_count,)

    return [(showing_messages, "_mark", mark)]


def _drop_what_stands_between() -> list[Patch]:
    def spans_of(gone: int, _kept: int, queue_number: int, base: int) -> Iterator[Span]:
        first, last = (gone & -gone).bit_length() - 1, gone.bit_length() - 1
        yield Span(queue_number, base + first, base + last)

    return [(showing_messages, "spans_of", spans_of)]


def _note_what_cannot_be_read() -> list[Patch]:
    add = ShowingMessages._add

    def whole(self: Any, *of_queue: Any) -> Any:
        yield from add(self, *of_queue)
        return True

    return [(ShowingMessages, "_add", whole)]


def _shown(name: str, patches: Callable[[], list[Patch]]) -> Ablation:
    return Ablation(name, patches, lived=live)


ABLATIONS = [
    _shown("who takes the lease asks what is shown", _ask_nothing),
    _shown("what may have been lost is asked for", _believe_what_was_lost),
    _shown("as many as before may be others", _count_only),
    _shown("a row that is to stay does not go with its neighbours", _drop_what_stands_between),
    _shown("what could not be read is looked at again", _note_what_cannot_be_read),
]
