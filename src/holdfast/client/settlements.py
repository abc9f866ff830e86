"""
Acknowledgements and rejections that are not certain: perhaps lost with the link, perhaps refused.

Now and then one asks for a receipt; when it comes, all that were said before it on the same link
and not refused are certain too. A refusal comes at once, before the receipt of anything said after
it, so by then it is known. It names what it refuses; an older or another broker may not, and then
all that it may concern are in doubt.

A refused acknowledgement by a delivery of the present link is said again, once, by each message's
own name: the message may be settled by another word of ours (a lost link had brought it to another
subscription, too), and with it all that the broker counts with it would be refused.

A lost link takes everything with it that is not certain. Acknowledgements are said again, by
message id, as the first thing on the next one. A broker rejects only what it has delivered on the
same link, so a rejection is kept until its message comes again, as is what was refused: the
message is then settled again, instead of being shown to the application twice. Only who has heard
that it is not done is shown it; who still waits is told what becomes of it this time. Pure.

Invariants:
    Numbers rise in `_said`; what a receipt confirms is a prefix of it.
    A message stands in one of `_said`, `_late` and `_kept`, and in `_late` only between two links.
    What was refused is never counted as done: a call that waits for it fails, or `tell` tells it.
    What is said again has a new number: no receipt that was asked for before confirms it.

Owned by the session of one connection.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from holdfast.client.failures import Failures
from holdfast.client.refusal import anew
from holdfast.client.wire import settlement
from holdfast.errors import HoldfastError, LinkLostError, LocalProtocolError, RefusedError
from holdfast.model.redelivery import DELAY_MS_MAX

ACKNOWLEDGE = b"ACK"
REJECT = b"NACK"
_COME_AGAIN = b"NACK\nrequeue:true"
"""A verb is the first line of its frame; this one has a second."""

KEPT_COUNT_MAX = 10_000
"""Most rejections lost with a link and refused acknowledgements; older ones are only counted."""


def come_again(seconds: float) -> bytes:
    """
    The verb of what is given back, to come again after so many seconds.

    Raises:
        LocalProtocolError: There is no such time, or it is too long.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        problem = f"it is {seconds!r}"
    elif 0 <= seconds <= DELAY_MS_MAX / 1000:
        return b"%b\ndelay:%d" % (_COME_AGAIN, round(seconds * 1000)) if seconds else _COME_AGAIN
    else:
        problem = f"it is {seconds}"
    raise LocalProtocolError(
        f"after how long a message comes again: {problem}; it must be from 0 to"
        f" {DELAY_MS_MAX // 1000:,} seconds",
        code="bad-delay",
    )


class Promise:
    """What one call waits for: that the broker has every settlement that has this promise."""

    __slots__ = ("is_said_again", "outcome", "refused")

    def __init__(self, outcome: asyncio.Future[None]) -> None:
        self.outcome = outcome
        self.is_said_again = False
        """Whether one of them was said again since the broker was asked."""

        self.refused: dict[Settlement, HoldfastError] = {}
        """Which of them will not be done, as it stands, and why."""

    @property
    def error(self) -> HoldfastError | None:
        """Why the first of `refused` will not be done."""
        return next(iter(self.refused.values()), None)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody will hear of it."""
        return not self.outcome.done()

    def take_back(self, settled: Settlement) -> None:
        """One that was refused is said again, before anybody has heard of it."""
        if self.refused.pop(settled, None) is not None:
            self.is_said_again = True


class Settlement:
    """
    One message acknowledged or rejected.

    `source` and `place` are its subscription's id and its number there. What is not `is_lasting`
    nobody keeps over the end of a link: a refusal says no more than that.
    """

    __slots__ = (
        "error",
        "has_receipt",
        "is_lasting",
        "is_told",
        "message_id",
        "number",
        "place",
        "promises",
        "said",
        "source",
        "verb",
    )

    def __init__(
        self, message_id: str, verb: bytes, source: str = "", place: int = 0, *, is_lasting: bool
    ) -> None:
        self.message_id = message_id
        self.verb = verb
        self.source = source
        self.place = place
        self.is_lasting = is_lasting
        self.number = 0
        self.said = ""
        """The id by which it was said on the present link."""

        self.has_receipt = False
        self.promises: tuple[Promise, ...] = ()
        self.error: HoldfastError | None = None
        """Why it is kept."""

        self.is_told = False
        """Whether somebody has heard of `error`; until then its promises may still tell it."""


class Settlements:
    """The acknowledgements and rejections of one connection that are not certain."""

    def __init__(self) -> None:
        self.number = 0
        """How many were added, ever: the number of the newest."""

        self._said: OrderedDict[str, Settlement] = OrderedDict()
        """On the present link, by message id, oldest first."""

        self._late: dict[str, Settlement] = {}
        """Acknowledgements to be said as soon as there is a link."""

        self._kept: OrderedDict[str, Settlement] = OrderedDict()
        """To be said when the message is delivered again; has `error`."""

        self._forgotten: dict[str, tuple[HoldfastError, int]] = {}
        """What nobody was told of and is not kept any more: the first error, and how many."""

        self._is_over = False
        self.knows_names = True
        """Whether the broker of the present link takes a message's own id for that message."""

        self._frames: list[bytes] = []
        """What is said again, and has not left."""

        self._promises: list[Promise] = []
        """Those for which the broker is to be asked once more."""

    def __len__(self) -> int:
        return len(self._said) + len(self._late) + len(self._kept)

    def add(self, settled: Settlement, said: str | None, *, has_receipt: bool = False) -> int:
        """Note a settlement, and the id by which it is now said, if it is; gives its number."""
        self.number = settled.number = self.number + 1
        if settled.error is not None:
            for promise in settled.promises:
                promise.take_back(settled)
            settled.error = None
            settled.is_told = False
        id = settled.message_id
        if id in self._said:
            del self._said[id]
        if self._kept:
            self._kept.pop(id, None)
        if said is not None:
            settled.said = said
            settled.has_receipt = has_receipt
            self._said[id] = settled
        elif settled.verb == ACKNOWLEDGE:
            self._late.pop(id, None)
            self._late[id] = settled
        else:
            self._keep(settled, _rejected_in_vain(id))
        return settled.number

    def add_counted(self, counted: list[Settlement], said: str) -> None:
        """Note what the broker settles with a message after it, which is said by this id."""
        for settled in counted:
            self.number = settled.number = self.number + 1
            settled.said = said
            id = settled.message_id
            if id in self._said:
                del self._said[id]
            if self._kept:
                self._kept.pop(id, None)
            self._said[id] = settled

    def find(self, message_id: str) -> Settlement | None:
        """What to say of a message that is delivered again; None: the application shall see it."""
        said = self._said.get(message_id)
        if said is not None and said.verb != ACKNOWLEDGE:
            # It was rejected or given back on this link, and comes again: so that is done.
            del self._said[message_id]
            return None
        found = said or self._late.get(message_id)
        if found is None:
            found = self._kept.get(message_id)
            if found is not None and found.is_told and isinstance(found.error, RefusedError):
                # The application has heard that it is not done.
                return None
        return found

    @property
    def is_late(self) -> bool:
        """Whether acknowledgements wait for a link."""
        return bool(self._late)

    @property
    def is_open(self) -> bool:
        """Whether the broker has not told of everything that was said on the present link."""
        return bool(self._said)

    @property
    def has_more(self) -> bool:
        """Whether there is something that `take_more` gives."""
        return bool(self._frames or self._promises)

    def take_more(self) -> tuple[list[bytes], list[Promise]]:
        """What is to be said again, and then for which promises the broker is to be asked."""
        more = self._frames, self._promises
        self._frames, self._promises = [], []
        return more

    def frames(self) -> list[bytes]:
        """Acknowledgements that are not certain, for a new link, on which they are now said."""
        frames = []
        for id, settled in self._late.items():
            settled.said = id
            settled.has_receipt = False
            self._said[id] = settled
            frames.append(settlement(ACKNOWLEDGE, id))
        self._late = {}
        return frames

    def promise(self, promise: Promise, source: str, places: range) -> bool:
        """
        Put a promise on all that a subscription has settled in these places and is not certain.

        Gives whether there is anything of which only the broker knows.
        """
        found = [
            settled
            for books in (self._said, self._late, self._kept)
            for settled in books.values()
            if settled.source == source and settled.place in places
        ]
        for settled in found:
            if settled.error is None:
                settled.promises += (promise,)
            else:
                awaited = [before for before in settled.promises if before.is_awaited]
                settled.promises = (*awaited, promise)
                promise.refused[settled] = settled.error
        return len(promise.refused) < len(found)

    def confirm_through(self, number: int) -> None:
        """The broker has everything up to this number that was said on this link."""
        said = self._said
        count = 0
        for settled in said.values():
            if settled.number > number:
                break
            count += 1
        for _ in range(count):
            said.popitem(last=False)

    def refused(self, said: str | None, error: HoldfastError) -> bool:
        """
        The broker refused something without a receipt; by this id, or (None) it does not say which.

        Gives whether it was a settlement, as far as can be known.
        """
        found = [
            settled
            for settled in self._said.values()
            if not settled.has_receipt and said in (None, settled.said)
        ]
        if len(found) > 1:
            error.add_note(f"the broker does not say of which of {len(found):,} messages it speaks")
        for settled in found:
            if len(found) == 1:
                error.add_note(f"the broker speaks of message {settled.message_id}")
            if said is None or not self._say_again(settled):
                self._refuse(settled, error)
        return bool(found)

    def committed(self, message_id: str) -> None:
        """
        A transaction has acknowledged a message: that a word of ours was refused is no matter.

        A lost link may have brought it to another subscription, too, and that one's word is refused
        while the transaction is under way. Of a topic each subscription has a copy of its own, of
        the same id: there the other one's word is another matter.
        """
        settled = self._kept.get(message_id)
        if settled is not None and settled.is_lasting and settled.verb == ACKNOWLEDGE:
            del self._kept[message_id]
            for promise in settled.promises:
                promise.refused.pop(settled, None)

    def refused_with_receipt(self, settled: Settlement, error: HoldfastError) -> None:
        """The broker refused this one, which asked for a receipt, and what it counts with it."""
        if self._said.get(settled.message_id) is settled:
            for each in [each for each in self._said.values() if each.said == settled.said]:
                if not self._say_again(each):
                    self._refuse(each, error)

    def _say_again(self, settled: Settlement) -> bool:
        """Let an acknowledgement be said by its message's own name, if it was not."""
        id = settled.message_id
        if not self.knows_names or settled.verb != ACKNOWLEDGE or settled.said == id:
            return False
        self.add(settled, id)
        self._frames.append(settlement(ACKNOWLEDGE, id))
        for promise in settled.promises:
            promise.is_said_again = True
        return True

    def _refuse(self, settled: Settlement, error: HoldfastError) -> None:
        del self._said[settled.message_id]
        if settled.is_lasting or any(promise.is_awaited for promise in settled.promises):
            self._keep(settled, error)

    def link_lost(self) -> None:
        """What was said on the lost link is not certain."""
        said, self._said = self._said, OrderedDict()
        for id, settled in said.items():
            settled.said = ""
            if settled.verb == ACKNOWLEDGE:
                self._late[id] = settled
            elif settled.is_lasting or settled.promises:
                self._keep(settled, _rejected_in_vain(id))

    def give_up(self) -> None:
        """The broker has forgotten its deliveries with the link, and will repeat them."""
        self._late.clear()
        self._kept.clear()

    def _keep(self, settled: Settlement, error: HoldfastError) -> None:
        awaited = [promise for promise in settled.promises if promise.is_awaited]
        for promise in awaited:
            promise.refused[settled] = error
        settled.promises = tuple(awaited)
        settled.said = ""
        settled.error = error
        self._kept[settled.message_id] = settled
        if len(self._kept) > KEPT_COUNT_MAX:
            _, oldest = self._kept.popitem(last=False)
            assert oldest.error is not None, "what is kept has its reason"
            is_to_be_told = any(promise.is_awaited for promise in oldest.promises)
            if not (oldest.is_told or is_to_be_told):
                self._forget(oldest.error, 1)

    def _forget(self, error: HoldfastError, count: int) -> None:
        kind = "refused" if isinstance(error, RefusedError) else "lost"
        first, before = self._forgotten.get(kind, (error, 0))
        self._forgotten[kind] = first, before + count

    def answered(self, promise: Promise, error: HoldfastError | None = None) -> None:
        """The broker has told of what has a promise; or (`error`) it has refused it."""
        if promise.is_said_again and promise.is_awaited:
            promise.is_said_again = False
            self._promises.append(promise)
        else:
            self.answer(promise, error)

    def answer(self, promise: Promise, error: HoldfastError | None = None) -> None:
        """What has a promise is certain or refused; or (`error`) nothing more will be known."""
        if not promise.is_awaited:
            return  # Whoever waited has gone, so `tell` does it in the end.
        for settled in promise.refused:
            settled.is_told = True
        error = promise.error or error
        if error is None:
            promise.outcome.set_result(None)
        else:
            promise.outcome.set_exception(anew(error))
            promise.outcome.exception()

    def tell(self, failures: Failures, *, is_all: bool) -> None:
        """
        The connection has ended: note what was refused and, if `is_all`, what is not certain.

        Once; what a call has told or is about to tell is not noted.
        """
        if self._is_over:
            return
        self._is_over = True
        for settled in self._kept.values():
            if settled.error is not None and not settled.is_told:
                self._forget(settled.error, 1)
        error, count = self._forgotten.get("refused", (None, 0))
        if error is not None:
            failures.add((self, "refused"), "acknowledged", error, count=count)
        _, count = self._forgotten.get("lost", (None, 0))
        count += len(self._said) + len(self._late)
        if count and is_all:
            why = LinkLostError(
                f"the connection was closed, and no broker has said that it has the last {count:,}"
                " acknowledgements; their messages may come again"
            )
            failures.add((self, "lost"), "acknowledged", why, count=count)


def _rejected_in_vain(message_id: str) -> LinkLostError:
    return LinkLostError(
        f"the link was lost while message {message_id} was rejected; it will be rejected again if"
        " it is delivered here again"
    )
