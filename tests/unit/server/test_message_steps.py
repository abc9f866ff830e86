"""
What operators do with single messages, asked of a node that runs in this process.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.admin.message_requests import MessageAction, MessageRequest, MessageStep
from holdfast.errors import (
    CorruptEntryError,
    DestinationError,
    LevelNotReachedError,
    NotLeaderError,
    SelectorError,
)
from holdfast.model.facts import Cause
from holdfast.model.format_level import MOVES_LEVEL, SCHEDULES_LEVEL
from holdfast.model.schedules import FOREVER, SCHEDULE_QUEUE
from holdfast.server import message_steps
from holdfast.server.node import Node
from holdfast.sessions.selection import Selection
from tests.unit.server.whole_node import config, run, within
from trials.clients.stomp_socket import StompSocket

ALL = (MessageAction.MOVE, MessageAction.COPY, MessageAction.RETRY, MessageAction.REMOVE)


async def at_level(node: Node) -> None:
    """The level is raised by a record, once the node leads."""
    while node.parts.broker.state.format_level < MOVES_LEVEL:
        await asyncio.sleep(0)


async def clients(node: Node, work) -> None:
    """Let a client do something that waits, beside the node's loop."""

    def connected() -> None:
        with StompSocket(node.config.stomp.port) as client:
            client.connect()
            work(client)

    await asyncio.to_thread(connected)


def sends(count: int, queue: str = "a", **headers: str):
    def work(client: StompSocket) -> None:
        for number in range(count):
            said = {"n": str(number)} | headers
            answer = client.publish(f"/queue/{queue}", b"body %d" % number, headers=said)
            assert answer.command == "RECEIPT"

    return work


def rejects(count: int, queue: str = "a"):
    def work(client: StompSocket) -> None:
        client.subscribe(f"/queue/{queue}")
        for _ in range(count):
            answer = client.ask("NACK", {"id": client.read_message().headers["ack"]})
            assert answer.command == "RECEIPT"

    return work


def wanted(action: MessageAction, queue: str = "a", target: str = "", **fields) -> MessageRequest:
    return MessageRequest(action=action, queue=queue, target=target, **fields)


async def step(node: Node, *asked, **fields) -> MessageStep:
    return await node.administration.messages(wanted(*asked, **fields))


def depths(node: Node) -> dict[str, int]:
    found = node.administration.queues(node.administration.queue_names())
    return {it.name: it.messages for it in found if it is not None and it.messages}


async def shown(node: Node, queue: str, **fields) -> list[dict]:
    found = await step(node, MessageAction.BROWSE, queue, body_bytes_max=99, **fields)
    return found.messages


def test_messages_are_moved_in_steps_until_there_are_no_more(tmp_path: Path) -> None:
    """
    Each step says how far it came; the end is where the queue ended when it was begun.
    """

    async def work(node: Node) -> None:
        await clients(node, sends(7))
        await at_level(node)
        done = await step(node, MessageAction.MOVE, "a", "b", count_max=3)
        assert (done.count, done.after, done.through, done.is_done) == (3, 3, 7, False)
        await clients(node, sends(1))
        done = await step(node, MessageAction.MOVE, "a", "b", after=3, through=7)
        assert (done.count, done.is_done) == (4, True)
        assert depths(node) == {"a": 1, "b": 7}
        found = await shown(node, "b")
        assert [base64.b64decode(it["body_base64"]) for it in found] == [
            b"body %d" % number for number in range(7)
        ]
        first = found[0]["headers"]
        assert first["original-destination"] == "/queue/a"
        assert first["original-message-id"].endswith("-1-1")
        assert "dlqDeliveryFailureCause" not in first

    run(tmp_path, work)


def test_a_selector_and_a_count_choose(tmp_path: Path) -> None:
    """
    By the headers that consumers see, and JMS' names for some of them.
    """

    async def work(node: Node) -> None:
        await clients(node, sends(6))
        await at_level(node)
        done = await step(node, MessageAction.REMOVE, selector="n >= 1 AND n <> 3", count_max=2)
        assert (done.count, done.not_matching, done.after) == (2, 1, 3)
        assert [it["headers"]["n"] for it in await shown(node, "a")] == ["0", "3", "4", "5"]
        (one,) = await shown(node, "a", selector="JMSDestination = 'queue://a' AND n = 4")
        assert one["sequence"] == 5
        found = await shown(node, "a", selector=f"JMSMessageID = '{one['message_id']}'")
        assert found == [one]
        with pytest.raises(SelectorError, match="column 4"):
            await step(node, MessageAction.BROWSE, selector="n =")

    run(tmp_path, work)


def test_a_dead_letter_goes_back_to_where_it_came_from(tmp_path: Path) -> None:
    """
    Each to its own queue; what is no dead letter stays. There it looks as it was sent.
    """

    async def work(node: Node) -> None:
        await at_level(node)
        for queue in ("a", "b"):
            await clients(node, sends(2, queue))
            await clients(node, rejects(2, queue))
        await clients(node, sends(1, "ActiveMQ.DLQ"))
        done = await step(node, MessageAction.RETRY, "ActiveMQ.DLQ")
        assert (done.count, done.skipped, done.is_done) == (4, 1, True)
        assert depths(node) == {"a": 2, "b": 2, "ActiveMQ.DLQ": 1}
        (first, _) = await shown(node, "b")
        assert base64.b64decode(first["body_base64"]) == b"body 0"
        assert not {"original-destination", "dlqDeliveryFailureCause"} & first["headers"].keys()
        assert not first["redelivered"]
        again = await step(node, MessageAction.RETRY, "a")
        assert (again.count, again.skipped) == (0, 2), "it is no dead letter any more"

    run(tmp_path, work)


def test_a_copy_is_made_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    """
    Whoever lost an answer asks again; what was there is passed over.
    """

    async def work(node: Node) -> None:
        await clients(node, sends(3))
        await at_level(node)
        copied = await step(node, MessageAction.COPY, "a", "b", count_max=2)
        assert (copied.count, copied.skipped) == (2, 0)
        copied = await step(node, MessageAction.COPY, "a", "b")
        assert (copied.count, copied.skipped) == (1, 2)
        assert depths(node) == {"a": 3, "b": 3}

    run(tmp_path, work)


@pytest.mark.parametrize("way", ["acknowledged", "purged"])
def test_what_leaves_meanwhile_is_not_copied(tmp_path: Path, monkeypatch, way: str) -> None:
    """
    The record would name what does not live any more: readers of the log count a message there
    that nobody has, and a restore would bring it back.
    """
    write = message_steps._Look.write

    def written(look, reply, note) -> None:
        broker, queue = look._broker, look._queue
        if way == "purged":
            broker.purge("a", reply, b"")
        else:
            broker.receipts.settle(queue, [2])
            broker.receipts.close_batch()
        write(look, reply, note)

    async def work(node: Node) -> None:
        await clients(node, sends(3))
        await at_level(node)
        monkeypatch.setattr(message_steps._Look, "write", written)
        copied = await step(node, MessageAction.COPY, "a", "b")
        left = {} if way == "purged" else {"a": 2, "b": 2}
        assert (depths(node), copied.count, copied.in_delivery) == (left, left.get("b", 0), 0)
        target = node.parts.broker.state.by_name.get("b")
        assert (target.next_sequence - 1 if target else 0) == copied.count

    run(tmp_path, work)


def test_what_a_consumer_has_is_left_alone(tmp_path: Path) -> None:
    """
    Shown as in delivery; copied, as that takes nothing from anybody.
    """

    async def work(node: Node) -> None:
        await clients(node, sends(3))
        await at_level(node)
        taken = asyncio.Event()
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def holds_one(client: StompSocket) -> None:
            client.subscribe("/queue/a", headers={"activemq.prefetchSize": "1"})
            client.read_message()
            loop.call_soon_threadsafe(taken.set)
            asyncio.run_coroutine_threadsafe(done.wait(), loop).result()

        holding = asyncio.create_task(clients(node, holds_one))
        await taken.wait()
        assert [it["in_delivery"] for it in await shown(node, "a")] == [True, False, False]
        assert (await step(node, MessageAction.COPY, "a", "c")).count == 3
        moved = await step(node, MessageAction.MOVE, "a", "b")
        assert (moved.count, moved.in_delivery) == (2, 1)
        done.set()
        await holding
        assert depths(node) == {"a": 1, "b": 2, "c": 3}

    run(tmp_path, work)


@pytest.mark.parametrize("action", ALL)
def test_nothing_is_changed_before_every_member_can_read_it(
    tmp_path: Path, action: MessageAction
) -> None:
    """
    The sentence says which level is needed.
    """

    async def work(node: Node) -> None:
        await clients(node, sends(1))
        await at_level(node)
        node.parts.broker.state.format_level = MOVES_LEVEL - 1
        with pytest.raises(LevelNotReachedError, match=f"need level {MOVES_LEVEL}"):
            await step(node, action, "a", "b")
        node.parts.broker.state.format_level = MOVES_LEVEL
        assert len(await shown(node, "a")) == 1

    run(tmp_path, work)


@pytest.mark.parametrize("target", ["", "a", "x,y", "/queue/b", "A.>"])
def test_a_target_is_the_name_of_another_queue(tmp_path: Path, target: str) -> None:
    """
    Nothing is declared for one that is not.
    """

    async def work(node: Node) -> None:
        await clients(node, sends(1))
        await at_level(node)
        before = node.administration.queue_names()
        with pytest.raises(DestinationError):
            await step(node, MessageAction.MOVE, "a", target)
        with pytest.raises(DestinationError, match="no queue"):
            await step(node, MessageAction.MOVE, "nowhere", "b")
        assert node.administration.queue_names() == before

    run(tmp_path, work)


def test_a_step_leaves_the_loop_to_others(tmp_path: Path, monkeypatch) -> None:
    """
    After every slice of its time, however many there are to be looked at.
    """
    monkeypatch.setattr(message_steps, "_SLICE_SECONDS", 0.0)
    pauses = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    # Of this module alone: all of the node's tasks sleep by asyncio's own.
    own = SimpleNamespace(sleep=pause, Lock=asyncio.Lock)
    monkeypatch.setattr(message_steps, "asyncio", own)

    async def work(node: Node) -> None:
        await clients(node, sends(100))
        await at_level(node)
        done = await step(node, MessageAction.MOVE, "a", "b")
        assert done.count == 100

    run(tmp_path, work)
    assert len(pauses) >= 6


@pytest.mark.parametrize("action", [MessageAction.MOVE, MessageAction.COPY, MessageAction.REMOVE])
def test_a_dry_run_tells_how_far_a_step_would_come(tmp_path: Path, action: MessageAction) -> None:
    """
    And changes nothing. A step that goes no further is done to those, and once more to none.
    """
    target = "" if action is MessageAction.REMOVE else "b"

    async def work(node: Node) -> None:
        await clients(node, sends(6))
        await at_level(node)
        asked = {"selector": "n > 0", "count_max": 2}
        dry = await step(node, action, "a", target, dry_run=True, **asked)
        assert (dry.count, dry.not_matching, dry.after, dry.is_done) == (2, 1, 3, False)
        assert depths(node) == {"a": 6}
        assert "b" not in node.administration.queue_names()
        counts = [
            (await step(node, action, "a", target, through=dry.after, **asked)).count
            for _ in range(2)
        ]
        assert counts == [2, 0]

    run(tmp_path, work)


def test_steps_look_one_after_the_other(tmp_path: Path, monkeypatch) -> None:
    """
    However many ask: else each of them had a slice of the same turn of the loop.
    """
    monkeypatch.setattr(message_steps, "_SLICE_SECONDS", 0.0)
    looked: list[object] = []
    take, read = message_steps._Look._take, message_steps.selection_of

    def noted_reading(*asked: str) -> Selection:
        looked.append("selector")
        return read(*asked)

    def noted(look: message_steps._Look, sequence: int) -> bool:
        looked.append(look._wanted.body_bytes_max)
        return take(look, sequence)

    monkeypatch.setattr(message_steps._Look, "_take", noted)
    monkeypatch.setattr(message_steps, "selection_of", noted_reading)

    async def work(node: Node) -> None:
        await clients(node, sends(4))
        await at_level(node)
        asked = [
            step(node, MessageAction.BROWSE, body_bytes_max=one, selector="n >= 0")
            for one in range(3)
        ]
        await asyncio.gather(*asked)

    run(tmp_path, work)
    assert looked == [it for one in range(3) for it in ("selector", one, one, one, one)]


def test_a_step_that_waited_for_others_ends_with_its_lead(tmp_path: Path, monkeypatch) -> None:
    """
    What it would look at is no more what this node leads.
    """

    async def work(node: Node) -> None:
        await clients(node, sends(3))
        await at_level(node)

        pausing(monkeypatch, partial(leads_anew, node))
        found = await asyncio.gather(
            step(node, MessageAction.BROWSE),
            step(node, MessageAction.MOVE, "a", "b"),
            return_exceptions=True,
        )
        assert [type(it) for it in found] == [NotLeaderError] * 2
        assert depths(node) == {"a": 3}

    run(tmp_path, work)


@pytest.mark.parametrize("selector", ["", "n >= 0"])
@pytest.mark.parametrize("action", [MessageAction.BROWSE, MessageAction.RETRY])
def test_what_cannot_be_read_is_counted_once(
    tmp_path: Path, monkeypatch, action: MessageAction, selector: str
) -> None:
    """
    As what it is: nobody knows whether it is a dead letter.
    """

    def damaged(*_where: object) -> None:
        raise CorruptEntryError("damaged")

    async def work(node: Node) -> None:
        await clients(node, sends(2))
        await at_level(node)
        cache = node.parts.broker.destinations.existing("a").cache
        monkeypatch.setattr(type(cache), "find", lambda *_: None)
        monkeypatch.setattr(message_steps, "read_as_it_stands", damaged)
        done = await step(node, action, selector=selector)
        assert (done.examined, done.unreadable, done.is_done) == (2, 2, True)
        assert (done.count, done.skipped, done.not_matching) == (0, 0, 0)

    run(tmp_path, work)


def test_a_step_for_which_there_are_too_many_queues_writes_nothing(tmp_path: Path) -> None:
    """
    Neither to the one that there is room for, nor to the one that is there.
    """

    async def work(node: Node) -> None:
        await at_level(node)
        for queue in "abc":
            await clients(node, sends(1, queue))
            await clients(node, rejects(1, queue))
        for queue in "bc":
            await node.administration.delete(queue)
        destinations = node.parts.broker.destinations
        settings = destinations._settings
        destinations._settings = replace(settings, queue_count_max=destinations.queue_count + 1)
        with pytest.raises(DestinationError, match="at most 3"):
            await step(node, MessageAction.RETRY, "ActiveMQ.DLQ")
        await clients(node, sends(1, "a"))  # Whatever was written is stored with it.
        assert depths(node) == {"ActiveMQ.DLQ": 3, "a": 1}
        destinations._settings = settings
        done = await step(node, MessageAction.RETRY, "ActiveMQ.DLQ")
        assert (done.count, depths(node)) == (3, {"a": 2, "b": 1, "c": 1})

    run(tmp_path, work)


def test_after_a_restart_and_after_cleaning_it_reads_the_same(tmp_path: Path) -> None:
    """
    Where it was moved to, with its way, also once the segment with its bytes is gone.
    """
    found: list[list[dict]] = []

    async def look(node: Node) -> None:
        rows = [row for queue in "bcd" for row in await shown(node, queue)]
        for row in rows:
            del row["redelivered"]  # A new leader cannot know.
        found.append(rows)

    async def begin(node: Node) -> None:
        await clients(node, sends(20, filler="x" * 4_000))
        await at_level(node)
        await step(node, MessageAction.MOVE, "a", "b", count_max=5)
        await step(node, MessageAction.MOVE, "b", "c", selector="n = 2")
        await step(node, MessageAction.COPY, "c", "d")
        await look(node)

    async def clean(node: Node) -> None:
        await at_level(node)
        await look(node)
        first = node.parts.store.first_index
        await step(node, MessageAction.REMOVE, "a")
        await clients(node, sends(40, "e", filler="y" * 4_000))
        await step(node, MessageAction.REMOVE, "e")
        queues = [node.parts.broker.state.by_name[name] for name in "bcd"]
        while any(
            queue.index.move_number(sequence)
            for queue in queues
            for sequence in queue.index.sequences(1, queue.next_sequence)
        ):
            await asyncio.sleep(0)
        while node.parts.store.first_index == first:
            await asyncio.sleep(0)
        await look(node)

    settings = config(tmp_path)
    for work in (begin, clean, look):
        asyncio.run(within(Node(settings), work))
    assert [it["headers"]["n"] for it in found[0]] == ["0", "1", "3", "4", "2", "2"]
    assert found[1:] == [found[0]] * 3


async def leads_anew(node: Node) -> None:
    role = node.parts.conductor.role
    role.end()
    while not role.is_serving:
        await asyncio.sleep(0)


def pausing(monkeypatch, work) -> None:
    """Do something, once, while a step pauses, which it does at every message."""
    monkeypatch.setattr(message_steps, "_SLICE_SECONDS", 0.0)
    to_do = [work]

    async def pause(_seconds: float) -> None:
        if to_do:
            await to_do.pop()()

    monkeypatch.setattr(message_steps, "asyncio", SimpleNamespace(sleep=pause))


@pytest.mark.parametrize("action", [MessageAction.MOVE, MessageAction.COPY, MessageAction.BROWSE])
def test_a_step_ends_with_the_lead_under_which_it_began(
    tmp_path: Path, monkeypatch, action: MessageAction
) -> None:
    """
    Also where this node leads again by then: who has which of the messages it does not know.
    """

    async def work(node: Node) -> None:
        await clients(node, sends(3))
        await at_level(node)

        pausing(monkeypatch, partial(leads_anew, node))
        with pytest.raises(NotLeaderError):
            await step(node, action, "a", "b")
        assert depths(node) == {"a": 3}
        assert "b" not in node.administration.queue_names()

    run(tmp_path, work)


def test_a_step_ends_with_its_queue(tmp_path: Path, monkeypatch) -> None:
    """
    Nothing is told as moved that was deleted.
    """

    async def work(node: Node) -> None:
        await clients(node, sends(3))
        await at_level(node)

        async def delete() -> None:
            await node.administration.delete("a")

        pausing(monkeypatch, delete)
        with pytest.raises(DestinationError, match="no queue"):
            await step(node, MessageAction.MOVE, "a", "b")
        assert depths(node) == {}

    run(tmp_path, work)


def test_a_step_that_meets_the_cleaner_is_asked_for_again(tmp_path: Path, monkeypatch) -> None:
    """
    What was looked at before the cleaner came is not passed over.
    """

    async def work(node: Node) -> None:
        await clients(node, sends(3))
        await at_level(node)
        moving = node.parts.broker.moving

        async def begin_to_clean() -> None:
            # Of the last message: all were looked at, and the step was full.
            moving.closed_through = node.parts.broker.state.by_name["a"].index.record_number(1)

        pausing(monkeypatch, begin_to_clean)
        done = await step(node, MessageAction.MOVE, "a", "b")
        assert (done.count, done.in_delivery, done.after, done.is_done) == (0, 0, 0, False)
        moving.closed_through = 0
        done = await step(node, MessageAction.MOVE, "a", "b", through=done.through)
        assert (done.count, done.in_delivery, done.is_done) == (3, 0, True)

    run(tmp_path, work)


def test_a_step_sends_back_to_so_many_queues(tmp_path: Path, monkeypatch) -> None:
    """
    Dead letters may be from a thousand; each has a record, and maybe a queue to be declared.
    """
    monkeypatch.setattr(message_steps, "_TARGETS_MAX", 2)

    async def work(node: Node) -> None:
        await at_level(node)
        for queue in "abc":
            await clients(node, sends(1, queue))
            await clients(node, rejects(1, queue))
        done = await step(node, MessageAction.RETRY, "ActiveMQ.DLQ")
        assert (done.count, done.is_done) == (2, False)
        again = {"after": done.after, "through": done.through}
        done = await step(node, MessageAction.RETRY, "ActiveMQ.DLQ", **again)
        assert (done.count, depths(node)) == (1, {"a": 1, "b": 1, "c": 1})

    run(tmp_path, work)


def test_what_was_scheduled_and_refused_is_not_sent_back(tmp_path: Path) -> None:
    """
    On the queue of what is scheduled it would have no time, and wait for ever.
    """

    async def work(node: Node) -> None:
        await at_level(node)
        later = {"AMQ_SCHEDULED_DELAY": "900000"}
        await clients(node, sends(1, "a", **later))
        broker = node.parts.broker
        queue = broker.destinations.existing(SCHEDULE_QUEUE)
        broker.settling.bury(queue, ("ActiveMQ.DLQ",), [1], Cause.FORBIDDEN, 1)
        node.parts.conductor.schedule()
        while depths(node).get("ActiveMQ.DLQ") != 1:
            await asyncio.sleep(0)
        done = await step(node, MessageAction.RETRY, "ActiveMQ.DLQ")
        assert (done.count, done.skipped, done.is_done) == (0, 1, True)

    run(tmp_path, work)


def test_dead_letters_of_a_subscription_of_a_topic_are_not_sent_back(tmp_path: Path) -> None:
    """
    On the topic they would come for all other subscriptions, too. A queue's name tells it.
    """

    async def work(node: Node) -> None:
        await at_level(node)
        await clients(node, sends(1, "topic://t"))
        await clients(node, rejects(1, "topic://t"))
        done = await step(node, MessageAction.RETRY, "ActiveMQ.DLQ")
        assert (done.count, done.skipped, done.is_done) == (0, 1, True)
        assert depths(node) == {"ActiveMQ.DLQ": 1}

    run(tmp_path, work)


SCHEDULED = (
    {"AMQ_SCHEDULED_DELAY": "600000"},
    {"AMQ_SCHEDULED_PERIOD": "900000", "AMQ_SCHEDULED_REPEAT": "-1"},
    {"AMQ_SCHEDULED_TIME": "4000000000000"},
)


def test_what_is_scheduled_is_looked_at_and_removed_by_when_it_is_due(tmp_path: Path) -> None:
    """
    With the next time, and how often after that; in steps of a thousand, as everything.
    """

    async def work(node: Node) -> None:
        while node.parts.broker.state.format_level < SCHEDULES_LEVEL:
            await asyncio.sleep(0)
        await clients(node, sends(1, "orders", **SCHEDULED[0]))
        await clients(node, sends(1, "orders", AMQ_SCHEDULED_DELAY="700000"))
        for headers in SCHEDULED[1:]:
            await clients(node, sends(2, "orders", **headers))
        found = await shown(node, SCHEDULE_QUEUE)
        assert [it["repeats"] for it in found] == [0, 0, FOREVER, FOREVER, 0, 0]
        assert [it["due_ms"] for it in found[4:]] == [4_000_000_000_000] * 2
        assert found[0]["headers"]["AMQ_SCHEDULED_DESTINATION"] == "/queue/orders"
        first = found[0]["due_ms"]
        early = await step(node, MessageAction.REMOVE, SCHEDULE_QUEUE, due_through=first)
        late = await step(node, MessageAction.REMOVE, SCHEDULE_QUEUE, due_from=10**12 * 3)
        assert (early.count, early.not_matching, late.count) == (1, 5, 2)
        left = await shown(node, SCHEDULE_QUEUE)
        assert [it["sequence"] for it in left] == [2, 3, 4]
        done = await step(node, MessageAction.REMOVE, SCHEDULE_QUEUE)
        assert (done.count, done.is_done, depths(node)) == (3, True, {})

    run(tmp_path, work)


@pytest.mark.parametrize("action", [MessageAction.MOVE, MessageAction.COPY, MessageAction.RETRY])
def test_what_is_scheduled_is_moved_by_nobody(tmp_path: Path, action: MessageAction) -> None:
    """
    Nor is anything moved to where it stands: it would never be due.
    """

    async def work(node: Node) -> None:
        while node.parts.broker.state.format_level < SCHEDULES_LEVEL:
            await asyncio.sleep(0)
        await clients(node, sends(1, "orders", **SCHEDULED[0]))
        await clients(node, sends(1, "orders"))
        with pytest.raises(DestinationError, match="scheduled"):
            await step(node, action, SCHEDULE_QUEUE, "orders")
        if action is not MessageAction.RETRY:
            with pytest.raises(DestinationError, match="scheduled"):
                await step(node, action, "orders", SCHEDULE_QUEUE)
            for name in ("$other", "ActiveMQ.Statistics.Broker", "ActiveMQ.Advisory.Connection"):
                with pytest.raises(DestinationError, match=r"the broker's own|are not served"):
                    await step(node, action, "orders", name)
        assert depths(node) == {"orders": 1, SCHEDULE_QUEUE: 1}

    run(tmp_path, work)
