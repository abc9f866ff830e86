"""
The ledger of batches: nobody is told before its batch is applied, and all are told in order.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import holdfast
from holdfast.broker.receipts import Receipts
from holdfast.model.records import AcknowledgeRecord, HoldRecord, QueueRecord

SOURCES: Final = Path(holdfast.__file__).parent

# Who may say `reply` or `confirm` beside the ledger, how often, and why nothing of it must last.
ALLOWED: Final = {
    # A goodbye was let go of by the ledger and waited for messages to be out.
    "sessions/stomp.py": 1,
    # BEGIN, and a SEND held by a transaction, live with the connection and die with it.
    "sessions/stomp_transactions.py": 1,
    "sessions/open_transactions.py": 1,
    # Acknowledgements held by a transaction, and the rest of a roll-back: as above.
    "sessions/holdings.py": 3,
    # An acknowledgement of what another leadership had in memory, and is gone with it.
    "sessions/stomp_acknowledging.py": 1,
    # Consensus replies to a peer, by a method of the same name.
    "replication/consensus.py": 1,
}
LINES: Final = {
    # `Publishing.confirm` only stands in line; whoever comes to its head is told by the ledger.
    "sessions/sending.py": 1,
    "broker/serving/publishing.py": 2,
    # `typer.confirm` asks a person.
    "cli/output.py": 1,
    "cli/login.py": 1,
    "cli/promotion.py": 1,
    "cli/store_tools.py": 2,
    # Says that the broker's promise is kept, to the ledger's caller.
    "server/confirming.py": 1,
}


class Client:
    def __init__(self, told: list[bytes], *, is_broken: bool = False) -> None:
        self.told = told
        self.is_broken = is_broken

    def reply(self, receipt: bytes) -> None:
        if self.is_broken:
            raise ConnectionError
        self.told.append(receipt)

    confirm = reply


def never(_who: object, error: Exception) -> None:
    raise AssertionError from error


def calls(path: Path, name: str) -> int:
    """How often a method of this name is called in a module."""
    text = path.read_text(encoding="utf-8")
    if name not in text:
        return 0
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
        for node in ast.walk(ast.parse(text))
    )


def found(name: str) -> dict[str, int]:
    counts = {
        path.relative_to(SOURCES).as_posix(): calls(path, name) for path in SOURCES.rglob("*.py")
    }
    del counts["broker/receipts.py"]
    return {
        path: count
        for path, count in counts.items()
        # Clients, and what proves the product, tell nobody that something is stored here.
        if count and not path.startswith(("testing/", "client/"))
    }


def test_nobody_else_says_that_something_is_stored() -> None:
    """
    Durable before told, in one place: outside the ledger only what never has to last is replied to.
    """
    assert found("reply") == ALLOWED
    assert found("confirm") == LINES


def test_a_batch_is_told_when_it_is_applied() -> None:
    """It is proposed at an index and awaited there; once applied and told it is gone."""
    told: list[bytes] = []
    receipts = Receipts()
    receipts.record(QueueRecord(1, "q"))
    receipts.reply_with_batch(Client(told), b"a")
    batch = receipts.take_batch()
    assert receipts.awaiting(7) is None
    receipts.proposed(batch, 7)
    assert receipts.proposed_count == 1
    assert receipts.awaiting(6) is None
    assert receipts.awaiting(7) is batch
    assert not told
    receipts.applied(batch)
    assert receipts.awaiting(7) is None
    assert (receipts.uncommitted_bytes, receipts.proposed_count) == (0, 0)
    assert receipts.tell_at_once(batch, 10, never)
    assert told == [b"a"]
    assert not receipts.in_flight


def test_a_reply_waits_for_the_newest_under_way() -> None:
    """What has no record of its own is told behind all that was asked before; else at once."""
    told: list[bytes] = []
    receipts = Receipts()
    receipts.reply_after_pending(Client(told), b"now")
    assert told == [b"now"]
    batches = []
    for number in (1, 2):
        receipts.record(QueueRecord(number, "q"))
        batches.append(receipts.take_batch())
        receipts.proposed(batches[-1], number)
    receipts.reply_after_pending(Client(told), b"later")
    assert [len(batch.replies) for batch in batches] == [0, 1]
    receipts.record(QueueRecord(3, "q"))
    receipts.reply_after_pending(Client(told), b"last")
    assert receipts.batch.replies[0][1] == b"last"


def test_a_batch_without_records_joins_the_one_before() -> None:
    """No entry is written for it; where nothing is under way it may be let go of at once."""
    told: list[bytes] = []
    receipts = Receipts()
    receipts.reply_with_batch(Client(told), b"a")
    alone = receipts.take_batch()
    assert not receipts.joins_earlier(alone)
    assert receipts.tell_at_once(alone, 10, never)
    receipts.record(QueueRecord(1, "q"))
    earlier = receipts.take_batch()
    receipts.proposed(earlier, 1)
    receipts.reply_with_batch(Client(told), b"b")
    assert receipts.joins_earlier(receipts.take_batch())
    assert [receipt for _, receipt in earlier.replies] == [b"b"]
    assert list(receipts.in_flight) == [earlier]


def test_who_cannot_be_told_costs_nobody_else() -> None:
    """Those behind it are told, also where messages are confirmed that only this node has."""
    told: list[bytes] = []
    broken: list[object] = []
    receipts = Receipts()
    bad = Client(told, is_broken=True)
    clients = [Client(told), bad, Client(told)]
    receipts.confirm(
        [(client, b"%d" % at) for at, client in enumerate(clients)],
        lambda who, _error: broken.append(who),
    )
    for at, client in enumerate(clients):
        receipts.reply_with_batch(client, b"%d" % at)
    batch = receipts.take_batch()
    assert [len(told) for _ in receipts.tell(batch, 1, lambda who, _: broken.append(who))]
    assert told == [b"0", b"2"] * 2
    assert broken == [bad, bad]


def test_the_end_of_a_leadership_forgets_all() -> None:
    """Nobody is told anything more; what was long is given to be let go of."""
    receipts = Receipts()
    for number in (1, 2, 3):
        receipts.record(HoldRecord("r", number, 1))
        receipts.reply_with_batch(Client([]), b"r")
        if number == 1:
            receipts.proposed(receipts.take_batch(), 1)
        elif number == 2:
            receipts.close_batch()
    assert receipts.holds_under_way()["r"].index == 3
    assert [len(pile) for pile in receipts.clear()] == [1, 1] * 3
    assert not receipts.has_batch()
    assert not receipts.in_flight
    assert (receipts.uncommitted_bytes, receipts.proposed_count) == (0, 0)


def test_what_is_applied_already_of_the_oldest_batch_leaves_nothing(desk) -> None:
    """
    An entry is applied in steps: what is gone by the first of them is counted nowhere.
    """
    for _ in range(4):
        desk.send(b"x")
    desk.turn()
    queue, receipts = desk.queue(), desk.broker.receipts
    for sequences in ([1], [2, 3]):
        receipts.record(AcknowledgeRecord(queue.number, sequences))
    assert receipts.leaving(queue) == [[1], [2, 3]]
    desk.send(b"y")
    receipts.record(AcknowledgeRecord(queue.number, [5]))
    batch = receipts.take_batch()
    desk.broker.apply_entry(desk.next_record, batch.records[:1], 1_000_000)
    assert receipts.leaving(queue) == [[], [2, 3], [5]]
