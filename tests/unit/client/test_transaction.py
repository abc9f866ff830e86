"""
Transactions: all or nothing, once, over failovers too.
"""

from __future__ import annotations

import asyncio

import pytest
from scripted_broker import ScriptedBroker, Store

from holdfast.client import connect
from holdfast.errors import LinkLostError, RefusedError, TransactionError


async def test_everything_happens_at_the_commit() -> None:
    """Before the end of the block nothing is stored, after it everything is."""
    store = Store()
    store.put("/queue/in", {"persistent": "true"}, b"order")
    async with (
        ScriptedBroker(store) as broker,
        connect(broker.uri) as connection,
        connection.subscribe("/queue/in") as subscription,
    ):
        message = await anext(subscription)
        async with connection.transaction() as transaction:
            await transaction.send("/queue/out", "1", headers={"colour": "red"})
            await transaction.send("/queue/other", b"2", persistent=False)
            await transaction.acknowledge(message)
            await connection.send("/queue/x", b"beside it")
            assert store.bodies("/queue/out") == []
        assert store.bodies("/queue/out") == [b"1"]
        assert store.bodies("/queue/other") == [b"2"]
        assert store.settled == [message.id]
        assert message.is_settled
        (commit,) = broker.frames("COMMIT")
        assert commit.headers["producer-id"] in store.producers
        assert all(frame.producer_sequence is None for frame in broker.sends[1:])


async def test_an_error_in_the_block_rolls_back() -> None:
    """Nothing was sent, and the message can be acknowledged again."""
    store = Store()
    store.put("/queue/in", {"persistent": "true"}, b"order")
    async with (
        ScriptedBroker(store) as broker,
        connect(broker.uri) as connection,
        connection.subscribe("/queue/in") as subscription,
    ):
        message = await anext(subscription)
        with pytest.raises(ValueError, match="mine"):
            async with connection.transaction() as transaction:
                await transaction.send("/queue/out", b"1")
                await transaction.acknowledge(message)
                raise ValueError("mine")
        await message.acknowledge(confirm=True)
        assert broker.frames("BEGIN") == []
        assert store.bodies("/queue/out") == []


@pytest.mark.parametrize("command", ["BEGIN", "COMMIT"])
async def test_a_failover_repeats_the_whole_once(command: str) -> None:
    """Whether the leader died before or after the commit, it happens once, under one number."""
    store = Store()
    store.put("/queue/in", {"persistent": "true"}, b"order")
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with (
            connect(first.failover(second)) as connection,
            connection.subscribe("/queue/in") as subscription,
        ):
            message = await anext(subscription)
            if command == "BEGIN":
                first.is_holding = True
            transaction = connection.transaction()
            await transaction.send("/queue/out", b"1")
            await transaction.acknowledge(message)
            if command == "COMMIT":
                first.refuse = lambda event: hold_from_commit(first, event)
            committing = asyncio.create_task(transaction.commit())
            await first.saw(lambda: first.frames(command))
            first.kill()
            await committing
        assert store.bodies("/queue/out") == [b"1"]
        assert store.settled == [message.id]
        commits = first.frames("COMMIT") + second.frames("COMMIT")
        assert len({commit.headers["producer-sequence"] for commit in commits}) == 1
        assert second.settled_ids[0] == message.id


def hold_from_commit(broker: ScriptedBroker, event: object) -> None:
    if event in broker.frames("COMMIT"):
        broker.is_holding = True


async def test_a_refused_part_refuses_the_whole() -> None:
    """No COMMIT follows a refused part; the transaction is aborted and told why."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: (
            ("destination", "no such") if event in broker.sends and event.body == b"2" else None
        )
        with pytest.raises(RefusedError, match="no such"):
            async with connection.transaction() as transaction:
                await transaction.send("/queue/a", b"1")
                await transaction.send("/queue/b", b"2")
                await transaction.send("/queue/c", b"3")
        await broker.saw(lambda: broker.frames("ABORT"))
        assert broker.frames("COMMIT") == []
        broker.refuse = lambda event: None
        async with connection.transaction() as transaction:
            await transaction.send("/queue/a", b"4")
        assert broker.store.bodies("/queue/a") == [b"4"]
        assert list(broker.store.producers.values()) == [1]


async def test_a_refused_commit_is_told_and_its_number_used_again() -> None:
    """After it another transaction commits under the same number."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.refuse = lambda event: (
            ("store-full", "no room") if event in broker.frames("COMMIT") else None
        )
        with pytest.raises(RefusedError, match="no room"):
            async with connection.transaction() as transaction:
                await transaction.send("/queue/a", b"1")
        broker.refuse = lambda event: None
        async with connection.transaction() as transaction:
            await transaction.send("/queue/a", b"2")
        assert [f.headers["producer-sequence"] for f in broker.frames("COMMIT")] == ["1", "1"]


@pytest.mark.parametrize("refused", ["SEND", "COMMIT"])
async def test_a_refusal_after_a_commit_was_under_way_is_no_certainty(refused: str) -> None:
    """
    The first leader may have committed: the repetition's refusal does not undo that, so the
    outcome is unknown and the number is not given to another transaction.
    """
    store = Store()
    async with ScriptedBroker(store) as first, ScriptedBroker(store) as second:
        async with connect(first.failover(second)) as connection:
            first.refuse = lambda event: hold_from_commit(first, event)
            second.refuse = lambda event: (
                ("store-full", "no room")
                if event in second.frames("COMMIT") or (refused == "SEND" and event in second.sends)
                else None
            )
            transaction = connection.transaction()
            await transaction.send("/queue/a", b"1")
            committing = asyncio.create_task(transaction.commit())
            await first.saw(lambda: first.frames("COMMIT"))
            first.kill()
            with pytest.raises(LinkLostError, match="unknown"):
                await committing
            second.refuse = lambda event: None
            async with connection.transaction() as transaction:
                await transaction.send("/queue/a", b"2")
        assert store.bodies("/queue/a") == [b"1", b"2"]


async def test_cancelling_a_commit_stops_the_wait_not_the_commit() -> None:
    """What is on its way to the broker happens."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        transaction = connection.transaction()
        await transaction.send("/queue/a", b"1")
        committing = asyncio.create_task(transaction.commit())
        await broker.saw(lambda: broker.frames("BEGIN"))
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        broker.release()
        await connection.wait_confirmed()
        assert broker.store.bodies("/queue/a") == [b"1"]


async def test_a_lost_plain_link_leaves_the_outcome_unknown() -> None:
    """Without failover a commit under way fails with LinkLostError."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        transaction = connection.transaction()
        await transaction.send("/queue/a", b"1")
        committing = asyncio.create_task(transaction.commit())
        await broker.saw(lambda: broker.frames("BEGIN"))
        broker.hang_up()
        with pytest.raises(LinkLostError):
            await committing


async def test_a_finished_transaction_takes_nothing_more() -> None:
    """Whether committed or rolled back; an empty one costs nothing."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        async with connection.transaction() as transaction:
            pass
        with pytest.raises(TransactionError, match="committed"):
            await transaction.send("/queue/a", b"1")
        other = connection.transaction()
        await other.roll_back()
        await other.roll_back()
        with pytest.raises(TransactionError, match="rolled back"):
            await other.commit()
        assert broker.frames("BEGIN") == []


async def test_a_transaction_has_a_size_limit() -> None:
    """It is kept here until it is confirmed, so it is bounded."""
    async with (
        ScriptedBroker() as broker,
        connect(broker.uri, transaction_bytes_max=100) as connection,
    ):
        transaction = connection.transaction()
        with pytest.raises(TransactionError, match="100"):
            await transaction.send("/queue/a", b"x" * 200)


async def test_what_commits_send_counts_as_unconfirmed() -> None:
    """The second waits until the first is confirmed, as a large message would."""
    async with (
        ScriptedBroker() as broker,
        connect(broker.uri, unconfirmed_bytes_max=1000, concurrent_sends_count_max=2) as connection,
    ):
        broker.is_holding = True
        commits = []
        for body in (b"1" * 600, b"2" * 600, b"3" * 600):
            transaction = connection.transaction()
            await transaction.send("/queue/a", body)
            await transaction.send("/queue/a", body)
            commits.append(asyncio.create_task(transaction.commit()))
        await broker.saw(lambda: len(broker.sends) == 2)
        marker = asyncio.create_task(connection.subscribe("/queue/b").open())
        await broker.saw(lambda: broker.frames("SUBSCRIBE"))
        assert len(broker.sends) == 2
        commits[1].cancel()
        broker.release()
        await marker
        await commits[0]
        await commits[2]
        assert broker.store.bodies("/queue/a") == [b"1" * 600] * 2 + [b"3" * 600] * 2


async def test_the_outcome_of_a_cancelled_commit_can_be_asked() -> None:
    """It goes on; whoever was cancelled finds out later, as often as they like."""
    async with ScriptedBroker() as broker, connect(broker.uri) as connection:
        broker.is_holding = True
        transaction = connection.transaction()
        with pytest.raises(TransactionError, match="open"):
            await transaction.wait_outcome()
        await transaction.send("/queue/a", b"1")
        for wait in (transaction.commit, transaction.wait_outcome, transaction.wait_outcome):
            waiting = asyncio.create_task(wait())
            await broker.saw(lambda: broker.sends)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
        asking = asyncio.create_task(transaction.wait_outcome())
        broker.release()
        await asking
        await transaction.wait_outcome()
        assert broker.store.bodies("/queue/a") == [b"1"]


async def test_the_refusal_of_a_cancelled_commit_can_be_asked() -> None:
    """And one that was cancelled before anything was sent is no commit."""
    async with (
        ScriptedBroker() as broker,
        connect(broker.uri, concurrent_sends_count_max=1) as connection,
    ):
        broker.is_holding = True
        broker.refuse = lambda event: (
            ("transaction", "no") if getattr(event, "command", "") == "COMMIT" else None
        )
        transactions = [connection.transaction() for _ in range(2)]
        waiting = []
        for transaction in transactions:
            await transaction.send("/queue/a", b"1")
            waiting.append(asyncio.create_task(transaction.commit()))
        await broker.saw(lambda: broker.sends)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        broker.release()
        for _ in range(2):
            with pytest.raises(TransactionError, match="no"):
                await transactions[0].wait_outcome()
        with pytest.raises(TransactionError, match="rolled back"):
            await transactions[1].wait_outcome()
        empty = connection.transaction()
        await empty.commit()
        await empty.wait_outcome()


async def test_a_refused_commit_that_was_asked_for_is_not_told_again() -> None:
    """Closing tells what nobody was told."""
    async with ScriptedBroker() as broker:
        connection = await connect(broker.uri)
        broker.is_holding = True
        broker.refuse = lambda event: (
            ("transaction", "no") if getattr(event, "command", "") == "COMMIT" else None
        )
        transaction = connection.transaction()
        await transaction.send("/queue/a", b"1")
        committing = asyncio.create_task(transaction.commit())
        await broker.saw(lambda: broker.sends)
        committing.cancel()
        await asyncio.wait([committing])
        broker.release()
        await connection.wait_confirmed()
        assert len(connection.failures) == 1
        for _ in range(2):
            with pytest.raises(TransactionError, match="no"):
                await transaction.wait_outcome()
        await connection.close()


async def test_a_cumulative_acknowledgement_names_each_message() -> None:
    """In mode "client" a transaction takes all messages taken before, each by its own."""
    store = Store()
    for n in range(3):
        store.put("/queue/in", {"persistent": "true"}, str(n).encode())
    async with (
        ScriptedBroker(store) as broker,
        connect(broker.uri) as connection,
        connection.subscribe("/queue/in", acknowledge="client") as subscription,
    ):
        messages = [await anext(subscription) for _ in range(3)]
        async with connection.transaction() as transaction:
            await transaction.acknowledge(messages[1])
            with pytest.raises(TransactionError):
                await transaction.acknowledge(messages[0])
        assert len(broker.settlements) == 2
        assert store.settled == [messages[0].id, messages[1].id]
        with pytest.raises(TransactionError):
            await connection.transaction().acknowledge(messages[0])
