"""
A client of a simulated world that acknowledges what it was never given.

It knows how ids are made and guesses well: what waits and nobody had, what others have or have
settled, what will be stored, what is of another cluster or term. Whatever it says must cost nobody
else a message, and itself no more than a refusal.

It keeps a queue of its own with non-persistent messages that nobody consumes while it guesses their
ids; then it consumes them itself: V2 and V3 say whether they are all there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.volatile_clients import VolatileConsumer, VolatileMessage
from trials.simulation.workload import make_frame

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

GUESSED = "client acknowledges what it was never given"
_QUEUE = "q9"
_FAR = 100_000
"""So far ahead that no message of a world gets there."""


class Stranger(VolatileConsumer):
    """Guesses ids in volleys; between them an honest consumer of its own queue."""

    def __init__(self, world: Simulation, name: str) -> None:
        super().__init__(world, name, queue=_QUEUE)
        self.made = 0
        self._first = 0
        """The first message of this volley: once it is confirmed, what was before it is done."""
        self._is_guessing = False

    def volley(self) -> None:
        """Send what nobody has, guess, and then take it after all."""
        pipe = self.pipe
        if pipe is None or not self.is_connected or self._is_guessing:
            return
        self._is_guessing = True
        leadership = (pipe.node.name, pipe.life, self.term)
        parts = [make_frame(b"UNSUBSCRIBE", b"id:s")]
        self._first = self.made + 1
        to = b"destination:/queue/" + _QUEUE.encode()
        for _ in range(self.chance.randrange(1, 6)):
            self.made += 1
            token = f"{self.name}.{self.made}"
            self.world.volatile.queue[token] = VolatileMessage(self.world.timeline.now, leadership)
            parts.append(make_frame(b"SEND", to, b"receipt:%d" % self.made, body=token.encode()))
        self.send(b"".join(parts))
        self.world.timeline.after(0.05, self._guess)

    def disconnected(self) -> None:
        """The next connection begins as a consumer."""
        super().disconnected()
        self._is_guessing = False

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Take a confirmation of what it sent, or a delivery; refusals are what it expects."""
        if command == b"RECEIPT":
            note = self.world.volatile.queue.get(f"{self.name}.{int(headers[b'receipt-id'])}")
            if note is not None:
                note.confirmed_at = self.world.timeline.now
        elif command == b"ERROR":
            self.counts(f"guess refused: {headers.get(b'code', b'?').decode()}")
        else:
            super().frame(command, headers, body, at)

    def _guess(self) -> None:
        if not self._is_guessing or not self.is_connected:
            return
        self._is_guessing = False
        guesses = [*self._what_waits(), *self._what_others_have(), *self._what_is_not()]
        self.chance.shuffle(guesses)
        parts = [self._word(guess) for guess in guesses]
        unit = b"transaction:guess"
        parts.append(make_frame(b"BEGIN", unit))
        parts += [make_frame(b"ACK", b"id:" + guess, unit) for guess in guesses[:3]]
        parts.append(make_frame(self.chance.choice((b"COMMIT", b"ABORT")), unit))
        self.send(b"".join(parts))
        self.world.count(GUESSED)
        self.connected()

    def _word(self, guess: bytes) -> bytes:
        verb = b"NACK" if self.chance.random() < 0.2 else b"ACK"
        return make_frame(verb, b"id:" + guess)

    def _what_waits(self) -> list[bytes]:
        """
        What the leader's memory has for its queue: an id that nobody was told.

        None while its own subscription may not have ended yet, and nothing that was on its way to
        it when a link broke: it may have had that, so its word rightly settles it.
        """
        assert self.pipe is not None
        first = self.world.volatile.queue.get(f"{self.name}.{self._first}")
        if first is None or not first.confirmed_at:
            return []
        node = self.pipe.node
        _, queue = node.broker.destinations.find(_QUEUE) or (None, None)
        if queue is None:
            return []
        head = b"ID\\c%b-%d-t%d." % (self._cluster(), queue.number, self.term)
        known = {it for note in self.world.volatile.queue.values() for it in note.delivered}
        ids = {head + b"%d" % -key: key for key in queue.transients}
        sent = {key for each in queue.custody.returning for key in each.unacknowledged}
        return [
            it
            for it, key in ids.items()
            if it in known or not (key in sent or queue.is_flagged(key))
        ]

    def _what_others_have(self) -> list[bytes]:
        """Ids of messages that consumers have had; whether they settled them is all the same."""
        history = self.world.history
        names = self.world.checkers.log.names
        ids = list(history.delivered)
        chosen = self.chance.sample(ids, min(6, len(ids)))
        for message_id in chosen:
            number = int(message_id.split(b"-")[-2])
            history.settle(names.get(number, ""), message_id)
        return chosen

    def _what_is_not(self) -> list[bytes]:
        """Numbers that were never given, and names of other places."""
        cluster = self._cluster()
        number = self.chance.randrange(1, 9)
        sequence = _FAR + self.chance.randrange(_FAR)
        return [
            b"ID\\c%b-%d-%d" % (cluster, number, sequence),
            b"ID\\c%b-%d-0" % (cluster, number),
            b"ID\\c%b-0-%d" % (cluster, number),
            b"ID\\c%b-%d-1" % (cluster, _FAR),
            b"ID\\c%b-%d-t%d.%d" % (cluster, number, self.term, _FAR),
            b"ID\\c%b-%d-t%d.1" % (cluster, number, self.term + _FAR),
            b"ID\\cdeadbeef-%d-1" % number,
            b"1-%d" % number,
            b"1--%d" % number,
            b"-",
        ]

    def _cluster(self) -> bytes:
        assert self.pipe is not None
        return self.pipe.node.conductor.context.cluster.encode()
