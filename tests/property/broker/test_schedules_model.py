"""
M9: what is scheduled is sent as a calendar says that anybody can read, each time once.

The calendar is a slow one: it steps through rhythms one by one, and through the minutes of cron
expressions. The clock jumps, leaders die before or after the log has what they sent, and a new one
may begin with a checkpoint. Whoever sends may repeat what was stored: nothing comes of that,
whether it is persistent or not, to a queue or to a topic. What is not kept may be lost with a
leader; it comes no more often than it is due, and not before.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.lasting.snapshot import digest_of, encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.model.format_level import SCHEDULES_LEVEL
from holdfast.model.records import FormatRecord
from holdfast.server.waking import Waking
from holdfast.store.record_codec import decode_records
from tests.unit.sessions.conftest import Desk

PLACES = {
    "kept": ("/queue/orders", "true"),
    "not persistent": ("/queue/quick", "false"),
    "published": ("/topic/news", "true"),
    "several": ("/queue/quick,/topic/news", "false"),
}
NOW = 1_700_000_040_000
"""A full minute."""
MINUTE_MS = 60_000


@dataclass
class Entry:
    """One message of the calendar."""

    due_ms: int
    period_ms: int = 0
    left: int = 0
    """Below zero: without end."""
    minutes: frozenset[int] = frozenset()
    """Those of an hour at which it is sent by cron."""
    burst: int = 0
    sent: int = 0
    is_over: bool = False
    frame: dict[str, str] = field(default_factory=dict)
    """What it was sent with; whoever repeats it says the same."""

    def look(self, now_ms: int) -> None:
        """Send it if it is due."""
        if self.is_over or self.due_ms > now_ms:
            return
        self.sent += 1
        again = None
        if self.left and self.period_ms:
            again = self.due_ms
            while again <= now_ms:
                again += self.period_ms
        if self.minutes:
            match = next_minute(self.minutes, now_ms)
            if again is None or match <= again:
                self.due_ms, self.left = match, self.burst
                return
        if again is None:
            self.is_over = True
            return
        self.due_ms = again
        self.left -= self.left > 0


def next_minute(minutes: frozenset[int], after_ms: int) -> int:
    """Step from minute to minute."""
    at = after_ms // MINUTE_MS * MINUTE_MS + MINUTE_MS
    while at // MINUTE_MS % 60 not in minutes:
        at += MINUTE_MS
    return at


periods = st.integers(1, 5 * MINUTE_MS)
repeats = st.one_of(st.integers(0, 4), st.just(-1))
rhythms = st.tuples(st.integers(1, 4 * MINUTE_MS), periods, repeats)
calendars = st.tuples(
    st.frozensets(st.integers(0, 59), min_size=1, max_size=5), periods, st.integers(0, 3)
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(0, 3 * MINUTE_MS)),
        st.tuples(st.just("rhythm"), st.tuples(st.sampled_from(sorted(PLACES)), rhythms)),
        st.tuples(st.just("cron"), st.tuples(st.sampled_from(sorted(PLACES)), calendars)),
        st.tuples(st.just("repeat"), st.integers(0, 99)),
        st.tuples(st.sampled_from(["die early", "die late", "checkpoint"]), st.none()),
    ),
    min_size=3,
    max_size=14,
)


class World:
    """A leader, its calendar, and what its clients have sent."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.desk.broker.receipts.record(FormatRecord(SCHEDULES_LEVEL))
        self.desk.turn()
        self.now_ms = NOW
        self.entries: list[Entry] = []
        self.checkpoint: tuple[int, bytes] | None = None
        self.came: Counter[bytes] = Counter()
        """Of what is not kept, by the places where it came."""
        self.listen()

    def listen(self) -> None:
        """Take what is not kept wherever it comes."""
        self.listener = self.desk.connect()
        for place in ("/queue/quick", "/topic/news"):
            self.listener.subscribe(place, id=place, ack="auto")
        self.desk.turn()

    def set_clock(self) -> None:
        self.desk.broker.sending.now_microseconds = self.now_ms * 1000

    def send(self, place: str, entry: Entry, headers: dict[str, str]) -> None:
        destination, persistent = PLACES[place]
        number = str(len(self.entries) + 1)
        entry.frame = {
            "destination": destination,
            "persistent": persistent,
            "receipt": number,
            "producer_id": "p",
            "producer_sequence": number,
            **headers,
        }
        self.entries.append(entry)
        self.say(len(self.entries) - 1)

    def say(self, at: int) -> None:
        """Send a message, for the first time or again."""
        self.set_clock()
        client = self.desk.connect()
        (frame,) = client.ask("SEND", b"%d" % at, **self.entries[at].frame)
        assert frame.command == "RECEIPT"
        client.leave()

    def repeat(self, at: int) -> None:
        if self.entries:
            self.say(at % len(self.entries))

    def rhythm(self, place: str, said: tuple[int, int, int]) -> None:
        delay_ms, period_ms, count = said
        headers = {"AMQ_SCHEDULED_DELAY": str(delay_ms)}
        if count:
            headers |= {
                "AMQ_SCHEDULED_PERIOD": str(period_ms),
                "AMQ_SCHEDULED_REPEAT": str(count),
            }
        self.send(place, Entry(self.now_ms + delay_ms, period_ms, count), headers)

    def cron(self, place: str, said: tuple[frozenset[int], int, int]) -> None:
        minutes, period_ms, count = said
        headers = {"AMQ_SCHEDULED_CRON": f"{','.join(map(str, sorted(minutes)))} * * * *"}
        if count:
            headers |= {
                "AMQ_SCHEDULED_PERIOD": str(period_ms),
                "AMQ_SCHEDULED_REPEAT": str(count),
            }
        first = next_minute(minutes, self.now_ms)
        self.send(place, Entry(first, period_ms, count, minutes, count), headers)

    def wake(self) -> None:
        self.set_clock()
        Waking(self.desk.broker, self.desk, self.damaged).step(lambda: False)

    def damaged(self, error: Exception) -> None:
        raise AssertionError(error)

    def settle(self) -> None:
        """Let all be sent that is due, and be in the log."""
        for entry in self.entries:
            entry.look(self.now_ms)
        for _ in range(5):
            self.wake()
            self.desk.turn()

    def die(self, *, is_late: bool) -> None:
        """The leader dies with what it sent in its hands, or in the log."""
        self.wake()
        if is_late:
            self.desk.seal()
            for entry in self.entries:
                entry.look(self.now_ms)
        self.desk.fail_over()
        if self.checkpoint is not None:
            self._begin_with_checkpoint(*self.checkpoint)
        self.listen()

    def _begin_with_checkpoint(self, entry_count: int, encoded: bytes) -> None:
        desk = self.desk
        state = decode_state(encoded, desk.settings)
        for first, timestamp, body in desk.log[entry_count:]:
            state.apply(first, decode_records(body, with_content=False), timestamp)
        assert digest_of(state) == digest_of(desk.broker.state)
        desk.broker = Broker(desk.settings, state)
        desk.broker.moving.cluster = desk.context.cluster
        desk.broker.lead()

    def note_checkpoint(self) -> None:
        self.checkpoint = len(self.desk.log), b"".join(encode_state(self.desk.broker.state))

    def check(self) -> None:
        desk = self.desk
        found: Counter[bytes] = Counter()
        queue = desk.broker.state.by_name.get("orders")
        if queue is not None:
            for sequence in queue.index.sequences(1, queue.index.last() + 1):
                body = desk.read_message(queue.index.record_number(sequence)).body
                assert body is not None
                found[body] += 1
        kept = PLACES["kept"][0]
        expected = {
            b"%d" % at: it.sent
            for at, it in enumerate(self.entries)
            if it.sent and it.frame["destination"] == kept
        }
        assert found == expected
        self.came.update(it.body for it in self.listener.frames() if it.command == "MESSAGE")
        for at, it in enumerate(self.entries):
            place_count = it.frame["destination"].count(",") + 1
            assert self.came[b"%d" % at] <= it.sent * place_count
        replayed = BrokerState(desk.settings)
        for first, timestamp, body in desk.log:
            replayed.apply(first, decode_records(body, with_content=False), timestamp)
        assert digest_of(replayed) == digest_of(desk.broker.state)


@given(steps)
def test_each_time_is_sent_once_and_at_its_time(todo) -> None:
    """
    Whatever happens between the times, and however many of them pass at once.
    """
    world = World()
    for name, said in todo:
        match name:
            case "pass":
                world.now_ms += said
                world.settle()
            case "rhythm":
                world.rhythm(*said)
            case "cron":
                world.cron(*said)
            case "repeat":
                world.repeat(said)
            case "checkpoint":
                world.settle()
                world.note_checkpoint()
            case _:
                world.die(is_late=name == "die late")
        world.settle()
        world.check()
