"""What several databases show to people: all of them the same, and one that missed some anew."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from threading import Event, Timer
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import StoreError
from holdfast.leases.contract import Outcome, Place
from holdfast.leases.projection import KEYS_MAX, Changes, MessageKey, MessageRow, QueueRow, Span
from holdfast.raidb import showing as showing_module
from holdfast.raidb.databases import Databases
from holdfast.raidb.lanes import ThreadLanes
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.raidb.showing import AGAIN_SECONDS, Showing, spans_of
from tests.stores.leased_log_suite import SECONDS, Writer
from tests.unit.raidb.several import Several, fill, until_left_out

NOTHING = MessageKey(-1, 0)


@pytest.fixture
def several() -> Several:
    return Several()


@pytest.fixture
def held(several: Several) -> tuple[Writer, RaidbLog]:
    writer = several.writer()
    writer.append(b"one")
    assert isinstance(writer.log, RaidbLog)
    return writer, writer.log


def queue(depth: int) -> Changes:
    """One queue as it is."""
    row = QueueRow(
        number=1, name="q", depth=depth, bytes=1, enqueued=1, dequeued=0, oldest_at=1, as_of_index=1
    )
    return Changes(queues=(row,))


def messages(*sequences: int) -> Changes:
    """Messages of one queue."""
    return Changes(
        messages=tuple(
            MessageRow(
                queue_number=1,
                sequence=it,
                idx=1,
                container="queue://q",
                message_id=f"ID:{it}",
                stored_at=1,
                expires_at=0,
                priority=4,
                size=1,
                headers=None,
                body=None,
                as_of_index=1,
            )
            for it in sequences
        )
    )


def shown(several: Several) -> list[list[Changes]]:
    """What was written in each."""
    return [[changes for _, changes in it.shown] for it in several.databases]


def there(several: Several) -> list[list[int]]:
    """Which messages have rows in each."""
    return [[it.sequence for it in each.shown_keys(NOTHING)] for each in several.databases]


def test_each_shows_what_is_told(several: Several, held: tuple[Writer, RaidbLog]) -> None:
    """Under the lease only; and appends go on."""
    writer, log = held
    assert log.project(queue(1), SECONDS) is Outcome.STORED
    assert shown(several) == [[queue(1)]] * 3
    writer.append(b"two")
    log.release(SECONDS)
    assert log.project(queue(2), SECONDS) is Outcome.DEPOSED
    assert log.shown_keys(NOTHING, SECONDS) == []
    assert shown(several) == [[queue(1)]] * 3


def test_one_that_misses_some_shows_nothing_more_until_all_begins_anew(
    several: Several, held: tuple[Writer, RaidbLog]
) -> None:
    """It costs no database its place, and whoever tells learns that all is to be compared."""
    writer, log = held
    first, second, _ = several.databases
    log.project(queue(1), SECONDS)
    second.is_away = True
    assert log.project(queue(2), SECONDS) is Outcome.STORED
    second.is_away = False
    assert several.states() == "active active active"
    with pytest.raises(StoreError, match=r"b-member: .*all is compared anew"):
        log.project(queue(3), SECONDS)
    assert log.project(queue(4), SECONDS) is Outcome.STORED
    whole = [queue(1), queue(2), queue(4)]
    assert shown(several) == [whole, [queue(1), queue(4)], whole]
    second.is_away = True
    log.project(queue(5), SECONDS)
    second.is_away = False
    assert log.project(queue(6), SECONDS) is Outcome.STORED, "not again at once"
    assert len(second.shown) == 2
    several.pass_time(AGAIN_SECONDS + 1)
    writer.append(b"two")
    with pytest.raises(StoreError, match="compared anew"):
        log.project(queue(7), SECONDS)
    log.project(queue(8), SECONDS)
    assert [changes for _, changes in second.shown][-1] == queue(8)
    assert first.shown[-1][1] == queue(8)


def test_one_that_was_left_out_shows_it_again_once_it_is_back(
    several: Several, held: tuple[Writer, RaidbLog]
) -> None:
    """It has the rows of then; what it shows by then is compared."""
    writer, log = held
    log.project(messages(1, 2), SECONDS)
    second = several.databases[1]
    second.is_away = True
    entries = writer.sealed(b"two")
    assert until_left_out(several, lambda: writer.send(entries)) is Outcome.STORED
    log.project(Changes(settled=(Span(1, 2, 2),)), SECONDS)
    log.project(messages(3), SECONDS)
    second.is_away = False
    fill(writer)
    assert there(several) == [[1, 3], [1, 2], [1, 3]]

    with pytest.raises(StoreError, match=r"b-member: it has come back: .*compared anew"):
        log.project(queue(1), SECONDS)
    assert log.shown_keys(NOTHING, SECONDS) == [MessageKey(1, 1)]
    assert there(several) == [[1], [1], [1]], "what some only have goes, and is told again"


def test_where_none_shows_anything_that_is_said(
    several: Several, held: tuple[Writer, RaidbLog]
) -> None:
    """Each with its reason; the log goes on."""
    writer, log = held
    for it in several.databases:
        it.is_away = True
    with pytest.raises(StoreError, match=r"no database shows anything: a-member: .*; c-member: "):
        log.project(queue(1), SECONDS)
    with pytest.raises(StoreError, match="no database shows anything"):
        log.shown_keys(NOTHING, SECONDS)
    for it in several.databases:
        it.is_away = False
    assert writer.append(b"two")


def test_one_that_refuses_is_told_of(
    several: Several, held: tuple[Writer, RaidbLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody holds a lock there; the others show it."""
    _, log = held
    second: Any = log.databases.members[1]
    monkeypatch.setattr(second, "show", lambda *_: "others hold a lock")
    assert log.project(queue(1), SECONDS) is Outcome.STORED
    with pytest.raises(StoreError, match="b-member: others hold a lock: it has missed"):
        log.project(queue(2), SECONDS)


def test_one_that_still_stores_what_the_others_have_is_not_held_up(
    several: Several, held: tuple[Writer, RaidbLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By majority one lags; what is shown there would wait behind it."""
    _, log = held
    tenure: Any = log._tenure
    behind = {"b-member"}
    monkeypatch.setattr(tenure, "lacking_bytes", lambda it: 5000 * (it in behind))
    assert log.project(queue(1), SECONDS) is Outcome.STORED
    assert log.project(queue(2), SECONDS) is Outcome.STORED
    assert shown(several)[1] == []
    behind.clear()
    with pytest.raises(StoreError, match="b-member: it was still storing what the others had"):
        log.project(queue(3), SECONDS)


def test_what_is_compared_goes_on_behind_what_each_can_tell_at_once(
    several: Several, held: tuple[Writer, RaidbLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has many rows the others have not tells less far; nothing is passed over."""
    _, log = held
    for start in range(0, 5000, 1000):
        log.project(messages(*range(start, start + 1000)), SECONDS)
    showing = log._showing
    assert showing is not None
    showing._write(Changes(settled=(Span(1, 0, 2999),)), ["b-member"], SECONDS)
    found = log.shown_keys(NOTHING, SECONDS)
    assert found[0] == MessageKey(1, 3000)
    assert len(found) >= 2000 or len(found) >= KEYS_MAX
    while len(found) < 2000:
        found += log.shown_keys(found[-1], SECONDS)
    assert [it.sequence for it in found] == list(range(3000, 5000))
    assert there(several)[0][0] == 3000
    monkeypatch.setattr(showing_module, "KEYS_MAX", 0)
    with pytest.raises(StoreError, match="could not be compared in time"):
        Showing(log.databases, log._tenure, several.clock).shown_keys(NOTHING, 0.0)  # type: ignore[arg-type]


class _Slow:
    """A member that shows something once it is let."""

    def __init__(self, name: str) -> None:
        self.place = name
        self.may_go_on = Event()

    def make_shown(self, *_: object) -> str:
        return ""

    def reaching(self, *_: object) -> AbstractContextManager[None]:
        return nullcontext()

    def show(self, *_: object) -> str:
        assert self.may_go_on.wait(10)
        return ""


def databases_of(*members: _Slow) -> tuple[Databases, Any]:
    """Databases a, b and so on, and a tenure that holds them."""
    them: Any = list(members)
    databases = Databases(them, ThreadLanes())
    names = "ab"[: len(them)]
    databases._by_id = dict(zip(names, them, strict=True))
    tenure = SimpleNamespace(
        active=list(names),
        tokens=dict.fromkeys(names, 1),
        end=Place(1, bytes(16)),
        lacking_bytes=lambda _: 0,
    )
    return databases, tenure


def test_one_that_takes_longer_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored next goes behind it, and does not fail as where a database hangs."""
    monkeypatch.setattr(showing_module, "SHOW_SECONDS_MAX", 0.02)
    quick, slow = _Slow("quick"), _Slow("slow")
    quick.may_go_on.set()
    databases, tenure = databases_of(quick, slow)
    Showing(databases, tenure, lambda: 0.0).project(queue(1), 2.0)
    Timer(0.05, slow.may_go_on.set).start()
    assert databases.ask("b", lambda member, _: member.place, 5.0) == "slow"
    databases._lanes.close()


def test_what_is_stored_does_not_wait_for_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes by the second way: one whose disk is slow keeps its place, as what it stores goes."""
    monkeypatch.setattr(showing_module, "SHOW_SECONDS_MAX", 0.02)
    first, second, twin = _Slow("first"), _Slow("second"), _Slow("beside the second")
    first.may_go_on.set()
    databases, tenure = databases_of(first, second)
    databases.add_twins([first, twin])  # type: ignore[list-item]
    Showing(databases, tenure, lambda: 0.0).project(queue(1), 2.0)
    assert not twin.may_go_on.is_set()
    assert databases.ask("b", lambda member, _: member.place, 5.0) == "second"
    twin.may_go_on.set()
    databases._lanes.close()


def test_what_was_dropped_is_made_anew(
    several: Several, held: tuple[Writer, RaidbLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was made is asked for once, and again where it was of no use."""
    _, log = held
    asked: list[bool] = []
    member: Any = log.databases.members[1]

    def make(_token: object, changes: Changes, _seconds: float) -> str:
        asked.append(changes.is_of_messages)
        return ""

    monkeypatch.setattr(member, "make_shown", make)
    for _ in range(2):
        log.project(queue(1), SECONDS)
        log.project(messages(1), SECONDS)
    assert asked == [False, True]
    monkeypatch.setattr(member, "show", lambda *_: "there is no such table")
    log.project(messages(2), SECONDS)
    monkeypatch.undo()
    monkeypatch.setattr(member, "make_shown", make)
    with pytest.raises(StoreError, match="b-member: there is no such table: it has missed"):
        log.project(messages(3), SECONDS)
    log.project(messages(3), SECONDS)
    assert asked == [False, True, True]
    monkeypatch.setattr(member, "make_shown", lambda *_: "it may not be made")
    log.project(queue(2), SECONDS)
    several.now += 10 * AGAIN_SECONDS
    with pytest.raises(StoreError, match="b-member: it may not be made: it has missed"):
        log.project(queue(2), SECONDS)


def test_runs_of_neighbours_are_as_few_as_they_can_be() -> None:
    """And never across two queues, or over what is not among them."""
    keys = [
        MessageKey(2, 4),
        MessageKey(1, 3),
        MessageKey(1, 1),
        MessageKey(1, 2),
        MessageKey(1, 7),
    ]
    assert list(spans_of(keys)) == [Span(1, 1, 3), Span(1, 7, 7), Span(2, 4, 4)]
    assert list(spans_of([])) == []
