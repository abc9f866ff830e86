"""What is noted of who did what."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from holdfast.admin.message_requests import MessageAction, MessageRequest
from holdfast.admin.person import Person, act_for
from holdfast.admin.status import HoldRequest
from holdfast.cli.main import main
from holdfast.model.format_level import ACCESS_LEVEL
from holdfast.model.wildcards import parse_pattern
from holdfast.security.roles import Duty
from holdfast.server.audit_bounds import Kind
from holdfast.server.audit_trail import AuditTrail
from holdfast.server.node import Node
from tests.unit.server.whole_node import run, store


class Paper:
    """A file that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[dict[str, str]] = []
        self.kinds: list[Kind] = []

    def note(self, fields, kind: Kind) -> None:
        self.lines.append(dict(fields))
        self.kinds.append(kind)


def trail_of(level_reached: bool = True) -> tuple[AuditTrail, list[object], Paper]:
    written: list[object] = []
    broker = SimpleNamespace(
        access_changes=SimpleNamespace(may_be_made=level_reached),
        receipts=SimpleNamespace(add_records=written.extend),
    )
    paper = Paper()
    clock = SimpleNamespace(wall_microseconds=lambda: 1_234_567)
    return AuditTrail(broker, clock, paper), written, paper


def test_a_change_is_noted_with_who_asks_just_now() -> None:
    """In the log with the change, in the file once it is done."""
    trail, written, paper = trail_of()
    act_for(Person("ann", "::1", Duty.OPERATE))
    trail.write("purge queue", "orders")
    trail.tell("purge queue", "orders")
    (record,) = written
    assert (record.at_ms, record.who, record.source) == (1_234, "ann", "admin ::1")
    assert (record.action, record.object, record.outcome) == ("purge queue", "orders", "done")
    assert list(paper.lines[0].values()) == ["ann", "admin", "::1", "purge queue", "orders", "done"]
    assert paper.kinds == [Kind.CHANGE]


def test_before_every_member_can_read_it_no_record_is_written() -> None:
    """A member of before would have to refuse the log; the file has the line all the same."""
    trail, written, paper = trail_of(level_reached=False)
    trail.write("purge queue", "orders")
    trail.tell("purge queue", "orders")
    assert written == []
    assert len(paper.lines) == 1


def test_refusals_and_logins_are_noted_as_what_they_are() -> None:
    """What is refused is bounded in the file: a stranger decides how much of it there is."""
    trail, _, paper = trail_of()
    trail.refused(Person("ann", "::1", Duty.VIEW), "POST", "/queues/a/purge", "may not")
    trail.login("ben", "stomp", "192.0.2.1")
    trail.login("ben", "stomp", "192.0.2.1", "login or passcode is wrong")
    assert [line["action"] for line in paper.lines] == ["POST /queues/a/purge", "login", "login"]
    assert [line["outcome"] for line in paper.lines[1:]] == ["done", "login or passcode is wrong"]
    assert paper.kinds == [Kind.REFUSAL, Kind.LOGIN, Kind.REFUSAL]


def test_what_is_written_is_bounded_and_can_be_written() -> None:
    """A name may have half a character, a path 64 KiB."""
    trail, written, paper = trail_of()
    act_for(Person("\ud800x", "", Duty.VIEW))
    trail.write("purge queue", "q" * 70_000)
    trail.tell("purge queue", "q" * 70_000)
    assert len(written[0].object.encode()) < 2_000
    assert (written[0].who, written[0].source) == ("?x", "admin")
    assert len(paper.lines[0]["object"]) < 2_000


def test_without_a_file_only_the_log_has_it() -> None:
    """The setting is empty by default."""
    trail, written, _ = trail_of()
    trail._file = None
    trail.tell("x", "y")
    trail.write("x", "y")
    assert len(written) == 1


def test_what_operators_change_has_its_record_in_the_same_entry(tmp_path, capsys) -> None:
    """
    Queues, policies, holds, messages: a kill is before both or behind both. Of messages the record
    stands first, as they may fill several entries; a reader that goes on with its hold leaves none.
    """

    async def work(node: Node) -> None:
        while node.parts.broker.state.format_level < ACCESS_LEVEL:
            await asyncio.sleep(0)
        await store(node, 3)
        act_for(Person("olga", "::1", Duty.OPERATE))
        ask = node.administration
        await ask.messages(MessageRequest(action=MessageAction.MOVE, queue="a", target="b"))
        await ask.messages(MessageRequest(action=MessageAction.BROWSE, queue="b"))
        await ask.messages(MessageRequest(action=MessageAction.REMOVE, queue="b", dry_run=True))
        await ask.purge("b")
        await ask.delete("a")
        pattern = parse_pattern("queue://b")
        await ask.say_policy(pattern, {"queuePrefetch": 5})
        await ask.take_back_policy(pattern, [])
        for index in (1, 2):
            await ask.keep_log("spark", HoldRequest(index=index))
        await ask.release_log("spark")

    run(tmp_path, work)
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["store", "dump", str(tmp_path / "data"), "--format", "jsonl"])
    assert ended.value.code == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    audits = [at for at, row in enumerate(rows) if row["type"] == "audit"]
    assert [(rows[at]["who"], rows[at]["action"], rows[at]["object"]) for at in audits] == [
        ("olga", "move messages", "a b"),
        ("olga", "purge queue", "b"),
        ("olga", "delete queue", "a"),
        ("olga", "set policy", "queue://b queuePrefetch=5"),
        ("olga", "unset policy", "queue://b"),
        ("olga", "set hold", "spark"),
        ("olga", "end hold", "spark"),
    ]
    beside = [rows[at + (1 if at == audits[0] else -1)] for at in audits]
    assert [row["index"] for row in beside] == [rows[at]["index"] for at in audits]
    kinds = [row["type"] for row in beside]
    assert kinds[1:] == ["purge", "delete-queue", "policy", "policy", "hold", "hold"]
