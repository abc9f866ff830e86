"""
The account of a load: what was sent, confirmed and delivered, and what that says of the broker.

Every body names its run, producer and sequence number and is otherwise fixed, so loss, doubling,
damage and disorder are measured, not assumed. Nothing here trusts the broker, its parser or its
message ids, except that one message has one id: the same sequence under two ids was stored twice.

What a consumer sees first may rightly come after a later message in two ways. A message without a
number that was sent again may be stored twice, and one copy overtakes the other where that is with
another consumer. And what was on its way to a consumer when its connection was lost, unseen, comes
to another one, flagged.

Owned by one `Load`; not safe to use from several threads at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BODY = re.compile(rb"HL1 ([0-9a-f]{8}) ([0-9a-f]{4}) ([0-9a-f]{8}) ")
BODY_BYTES_MIN = 27
_FILLER = (bytes(range(65, 91)) * ((1 << 20) // 26 + 1))[: 1 << 20]


def make_body(run: int, producer: int, sequence: int, size_bytes: int) -> bytes:
    """Give the one body that this message may have."""
    head = b"HL1 %08x %04x %08x " % (run, producer, sequence)
    return head + _FILLER[: max(0, size_bytes - len(head))]


@dataclass(frozen=True, slots=True)
class Account:
    """What a load found; all but the first four, `redelivered` and the gap should be zero."""

    sent: int
    confirmed: int
    delivered: int
    """Different messages that reached a consumer."""

    duplicates: int
    """Deliveries of a message beyond its first."""

    redelivered: int
    """Deliveries flagged as such."""

    unconfirmed: int
    lost: int
    """Confirmed and never delivered."""

    unflagged: int
    """Deliveries that were not the first of their message and did not say so."""

    stored_twice: int
    """Messages that came under more than one message id."""

    resurrected: int
    """Deliveries of a message whose acknowledgement the broker had confirmed before."""

    reordered: int
    """First deliveries that came after a later message of the same producer, per consumer, and that
    no copy sent again and no consumer's end explains."""

    corrupt: int
    foreign: int
    """Messages of another run, or that nobody sent."""

    gap_seconds: float
    """The longest time without any receipt while some were due."""

    errors: tuple[str, ...] = ()
    """The ERROR frames that came, as they were."""

    def __str__(self) -> str:
        return (
            f"sent {self.sent} confirmed {self.confirmed} delivered {self.delivered}"
            f" lost {self.lost} unconfirmed {self.unconfirmed} duplicates {self.duplicates}"
            f" (unflagged {self.unflagged}, stored twice {self.stored_twice})"
            f" redelivered {self.redelivered} resurrected {self.resurrected}"
            f" reordered {self.reordered} corrupt {self.corrupt} foreign {self.foreign}"
            f" gap {self.gap_seconds * 1000:.0f} ms errors {len(self.errors)}"
        )


class Ledger:
    """Books for one run; every `now` is monotonic seconds."""

    def __init__(self, run: int, body_bytes: int) -> None:
        self.run = run
        self.body_bytes = body_bytes
        self.sent: dict[int, int] = {}
        """By producer: the highest sequence sent; they begin with 1 and leave none out."""
        self.confirmed: dict[int, set[int]] = {}
        self.identities: dict[tuple[int, int], set[bytes]] = {}
        self.settled: set[bytes] = set()
        """Message ids whose acknowledgement was confirmed."""
        self.errors: list[str] = []
        self.delivered_count = 0
        self.confirmed_count = 0
        self.last_event = 0.0
        self._latest: dict[tuple[int, int], int] = {}
        self._sent_again: set[tuple[int, int]] = set()
        self._given_back: dict[int, dict[int, int] | None] = {}
        """By consumer and producer: the latest on this connection; None once another was lost."""
        self._redelivered = 0
        self._unflagged = 0
        self._resurrected = 0
        self._reordered = 0
        self._corrupt = 0
        self._foreign = 0
        self._due = 0
        self._waiting_since = 0.0
        self._gap = 0.0

    @property
    def due_count(self) -> int:
        """Messages sent and not yet confirmed."""
        return self._due

    def note_sent(self, producer: int, sequence: int, now: float) -> None:
        """A new message was handed to the socket; do not note it again when it is sent again."""
        assert sequence == self.sent.get(producer, 0) + 1, "sequences leave none out"
        self.sent[producer] = sequence
        if not self._due:
            self._waiting_since = now
        self._due += 1

    def note_sent_again(self, producer: int, sequence: int) -> None:
        """A message without a number goes out once more: there may be two copies from now on."""
        self._sent_again.add((producer, sequence))

    def note_connected(self, consumer: int) -> None:
        """A consumer begins: what was given back before that comes to it in order."""
        self._given_back[consumer] = {}

    def note_lost(self, consumer: int) -> None:
        """A consumer's connection is lost: what it did not see may come to others from now on."""
        self._given_back = {each: None for each in self._given_back if each != consumer}

    def note_confirmed(self, producer: int, sequence: int, now: float) -> bool:
        """A receipt came; False if it had come before."""
        known = self.confirmed.setdefault(producer, set())
        if sequence in known or not 1 <= sequence <= self.sent.get(producer, 0):
            return False
        known.add(sequence)
        self._due -= 1
        self.confirmed_count += 1
        self._gap = max(self._gap, now - self._waiting_since)
        self._waiting_since = self.last_event = now
        return True

    def note_delivered(
        self, consumer: int, body: bytes, message_id: bytes, *, redelivered: bool, now: float
    ) -> None:
        """A message reached a consumer."""
        self.last_event = now
        self.delivered_count += 1
        found = _BODY.match(body)
        if found is None:
            self._corrupt += 1
            return
        run, producer, sequence = (int(group, 16) for group in found.groups())
        if run != self.run or sequence > self.sent.get(producer, 0):
            self._foreign += 1
            return
        if body != make_body(run, producer, sequence, self.body_bytes):
            self._corrupt += 1
            return
        self._redelivered += redelivered
        self._resurrected += message_id in self.settled
        known = self.identities.get((producer, sequence))
        if known is None:
            self.identities[producer, sequence] = {message_id}
            self._reordered += self._is_late(consumer, producer, sequence, redelivered=redelivered)
            self._latest[consumer, producer] = sequence
            return
        # A copy under another id is the producer's own retry: stored twice, and no redelivery.
        self._unflagged += message_id in known and not redelivered
        known.add(message_id)

    def _is_late(self, consumer: int, producer: int, sequence: int, *, redelivered: bool) -> bool:
        """Whether a first delivery should have come before another one."""
        latest = self._latest.get((consumer, producer), 0)
        on_connection = self._given_back.setdefault(consumer, {})
        if on_connection is not None:
            known = on_connection.get(producer, 0)
            on_connection[producer] = sequence
            if redelivered:
                latest = known
        elif redelivered:
            return False
        return sequence < latest and (producer, sequence) not in self._sent_again

    def note_settled(self, message_id: bytes) -> None:
        """The broker confirmed an acknowledgement."""
        self.settled.add(message_id)

    def account(self, now: float) -> Account:
        """Close the books."""
        gap = max(self._gap, now - self._waiting_since) if self._due else self._gap
        wanted = {(p, sequence) for p, known in self.confirmed.items() for sequence in known}
        delivered = len(self.identities)
        copies = sum(len(ids) - 1 for ids in self.identities.values())
        return Account(
            sent=sum(self.sent.values()),
            confirmed=self.confirmed_count,
            delivered=delivered,
            duplicates=self.delivered_count - delivered - self._corrupt - self._foreign,
            redelivered=self._redelivered,
            unconfirmed=self._due,
            lost=len(wanted - self.identities.keys()),
            unflagged=self._unflagged,
            stored_twice=copies,
            resurrected=self._resurrected,
            reordered=self._reordered,
            corrupt=self._corrupt,
            foreign=self._foreign,
            gap_seconds=gap,
            errors=tuple(self.errors),
        )
