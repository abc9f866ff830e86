"""
The second act: a cluster of consumers, a poison message, reminders, a leader killed.

Orders of many customers go to one queue, each customer a message group. Workers are processes of
their own: one is killed, one joins later, and one order is poison that kills every worker that gets
it. Once it is a dead letter, workers with a mended program are started and it is retried. Reminders
are scheduled before all this and come due before, while and after the leader is killed.

All is judged by what the workers wrote down themselves, with one clock.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from holdfast.client import connect
from holdfast.errors import UnknownDeliveryError
from holdfast.testing.guardian import end_with_us
from holdfast.testing.local_cluster import LocalCluster

ORDERS = "/queue/demo.customers"
REMINDERS = "/queue/demo.reminders"
DEAD_LETTERS = "ActiveMQ.DLQ"
CUSTOMERS = 60
ORDERS_EACH = 50
POISONED_CUSTOMER = 7
WORKERS = 3
REMINDER_COUNT = 40
REMINDER_SECONDS = 12.0
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.05
WORKER = Path(__file__).with_name("worker.py")


@dataclass(slots=True)
class Book:
    """What workers and the reader of reminders told, in the order in which it was read."""

    sent: Counter[str] = field(default_factory=Counter)
    got: list[dict[str, Any]] = field(default_factory=list)
    done: list[dict[str, Any]] = field(default_factory=list)
    died: dict[int, float] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    reminded: list[tuple[str, str, float, bool]] = field(default_factory=list)
    cause: str = ""
    is_poison_done: bool = False

    def heard(self, worker: int, told: dict[str, Any]) -> None:
        """Write down a worker's line; what is poison has an account of its own."""
        if told["what"] == "ready":
            return
        if told["body"] == "poison":
            self.is_poison_done |= told["what"] == "done"
            return
        (self.got if told["what"] == "got" else self.done).append({**told, "worker": worker})

    @property
    def handled(self) -> set[tuple[str, str]]:
        """Group and number of each order that was handled."""
        return {(each["group"], each["body"]) for each in self.done}

    @property
    def out_of_order(self) -> int:
        """Orders that were first delivered after a later one of their customer."""
        last: dict[str, int] = defaultdict(lambda: -1)
        seen: set[tuple[str, str]] = set()
        wrong = 0
        for each in sorted(self.got, key=lambda told: told["at"]):
            number = int(each["body"])
            if (each["group"], each["body"]) not in seen:
                seen.add((each["group"], each["body"]))
                wrong += number < last[each["group"]]
                last[each["group"]] = max(number, last[each["group"]])
        return wrong

    @property
    def in_two_hands(self) -> int:
        """How often a worker got an order while another, alive, had one of the same customer."""
        ends = {(each["worker"], each["id"], each["group"]): each["at"] for each in self.done}
        held: dict[str, dict[int, float]] = defaultdict(dict)
        wrong = 0
        for each in sorted(self.got, key=lambda told: told["at"]):
            worker, group = each["worker"], each["group"]
            others = (until for other, until in held[group].items() if other != worker)
            wrong += any(until > each["at"] for until in others)
            until = ends.get((worker, each["id"], group), self.died.get(worker, each["at"]))
            held[group][worker] = max(until, held[group].get(worker, 0.0))
        return wrong

    @property
    def unflagged(self) -> int:
        """Orders that were delivered again without saying so."""
        seen: set[tuple[str, str]] = set()
        wrong = 0
        for each in sorted(self.got, key=lambda told: told["at"]):
            wrong += (each["group"], each["body"]) in seen and not each["redelivered"]
            seen.add((each["group"], each["body"]))
        return wrong


class Crew:
    """Worker processes; one that dies is replaced, as whatever runs services would."""

    def __init__(self, uri: str, book: Book) -> None:
        self._uri = uri
        self._book = book
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._hearing: set[asyncio.Task[None]] = set()
        self._hired = 0
        self.is_mended = False
        self.is_replacing = True

    async def hire(self) -> None:
        """Start a worker, and return once it consumes."""
        self._hired += 1
        worker = self._hired
        mended = ["--mended"] if self.is_mended else []
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(WORKER), self._uri, ORDERS, *mended),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        end_with_us(process.pid)
        self._running[worker] = process
        ready = asyncio.Event()
        task = asyncio.create_task(self._hear(worker, process, ready))
        self._hearing.add(task)
        task.add_done_callback(self._hearing.discard)
        await ready.wait()

    async def _hear(
        self, worker: int, process: asyncio.subprocess.Process, ready: asyncio.Event
    ) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            ready.set()
            self._book.heard(worker, json.loads(line))
        await process.wait()
        ready.set()
        self._running.pop(worker, None)
        if self.is_replacing:
            self._book.died.setdefault(worker, time.monotonic())
            await self.hire()

    def _kill(self, worker: int) -> None:
        """SIGKILL; what the worker had in hand is another one's from now, before we hear of it."""
        self._book.died[worker] = time.monotonic()
        self._running[worker].kill()

    def kill_one(self) -> None:
        """SIGKILL to the worker that has been there longest."""
        self._kill(min(self._running))

    def retire_unmended(self) -> None:
        """SIGKILL to all but the one who was hired last; mended ones take their places."""
        for worker in sorted(self._running)[:-1]:
            self._kill(worker)

    async def end(self) -> None:
        """Kill what runs, and hear what it still has to say."""
        self.is_replacing = False
        for process in list(self._running.values()):
            process.kill()
        await asyncio.gather(*self._hearing)


async def send_orders(uri: str, book: Book) -> None:
    """Send each customer's orders in order, one of them poison."""
    async with connect(uri) as connection, connection.producer(ORDERS, window=100) as producer:
        for number in range(ORDERS_EACH):
            for customer in range(CUSTOMERS):
                group = {"JMSXGroupID": f"customer {customer}"}
                if number == ORDERS_EACH // 4 and customer == POISONED_CUSTOMER:
                    await producer.send(b"poison", headers=group)
                await producer.send(b"%d" % number, headers=group)
                book.sent[group["JMSXGroupID"]] += 1
            await asyncio.sleep(0.1)


async def schedule(uri: str, book: Book) -> None:
    """Have reminders sent later, spread over the whole act."""
    async with connect(uri) as connection, connection.producer(REMINDERS) as producer:
        for number in range(REMINDER_COUNT):
            seconds = 1.0 + number * REMINDER_SECONDS / REMINDER_COUNT
            delay = {"AMQ_SCHEDULED_DELAY": str(round(seconds * 1000))}
            book.due[str(number)] = time.monotonic() + seconds
            await producer.send(b"%d" % number, headers=delay)


async def be_reminded(uri: str, book: Book) -> None:
    """Take reminders until cancelled."""
    with suppress(UnknownDeliveryError):  # It was delivered again after the failover, flagged.
        async with connect(uri) as connection, connection.subscribe(REMINDERS) as subscription:
            async for message in subscription:
                told = (message.body.decode(), message.id, time.monotonic(), message.redelivered)
                book.reminded.append(told)
                await message.acknowledge()


class OperatorError(RuntimeError):
    """A command of the operator's did not do what it should; with what it printed."""


async def operate(cluster: LocalCluster, *arguments: str) -> str:
    """What an operator would type, again where the node is killed meanwhile; what it printed."""
    began = time.monotonic()
    while True:
        try:
            return await _type(cluster, *arguments)
        except OperatorError as error:
            is_late = time.monotonic() - began > PATIENCE_SECONDS
            if is_late or "no answer from the admin port" not in str(error):
                raise
        await asyncio.sleep(POLL_SECONDS)


async def _type(cluster: LocalCluster, *arguments: str) -> str:
    admin = next(node.admin for node in cluster.nodes.values() if node.is_running)
    command = [sys.executable, "-m", "holdfast", *arguments, "--admin", admin]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=90.0, check=False
    )
    if done.returncode:
        reason = done.stderr.strip() or done.stdout.strip()
        raise OperatorError(f"holdfast {' '.join(arguments)}: {reason}")
    return done.stdout


async def dead_letters(cluster: LocalCluster) -> list[dict[str, Any]]:
    """What stands on the dead-letter queue; there is no such queue before the first one."""
    try:
        printed = await operate(cluster, "messages", "browse", DEAD_LETTERS, "--json")
    except OperatorError as error:
        if "there is no queue" in str(error):
            return []
        raise
    return [json.loads(line) for line in printed.splitlines() if line]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something, for a minute at most; the account shows what did not come."""
    for _ in range(round(PATIENCE_SECONDS / POLL_SECONDS)):
        if condition():
            return
        await asyncio.sleep(POLL_SECONDS)


async def bury_and_retry(cluster: LocalCluster, crew: Crew, book: Book, console: Console) -> None:
    """Wait for the poison to be dead, tell why, mend the workers, retry it."""
    began = time.monotonic()
    while not (letters := await dead_letters(cluster)):
        if time.monotonic() - began > PATIENCE_SECONDS:
            return
        await asyncio.sleep(0.2)
    headers = letters[0]["headers"]
    book.cause = headers.get("dlqDeliveryFailureCause", "")
    console.print(
        f"the poison is a dead letter ([yellow]{book.cause}[/]), from"
        f" {headers.get('original-destination')}, after {len(book.died)} workers have died"
    )
    crew.is_mended = True
    await crew.hire()
    crew.retire_unmended()
    await operate(cluster, "messages", "retry", DEAD_LETTERS, "--quiet")
    console.print("workers with a mended program are there; [bold]holdfast messages retry[/]")


async def kill_leader(cluster: LocalCluster, console: Console) -> None:
    """SIGKILL to the leader, and start it again once another one leads."""
    leader = await asyncio.to_thread(cluster.leader)
    console.print(f"[bold red]kill -9[/] of the leader [bold]{leader.name}[/] (pid {leader.pid})")
    leader.kill()
    successor = await asyncio.to_thread(cluster.leader, 30.0, leader)
    console.print(f"[bold green]{successor.name}[/] has taken over; reminders go on")
    leader.start()


async def play(cluster: LocalCluster, console: Console) -> Book:
    """Run the act; gives what all who took part wrote down."""
    book = Book()
    crew = Crew(cluster.uri, book)
    queue = ORDERS.removeprefix("/queue/")
    await operate(cluster, "queues", "set", queue, "maximumRedeliveries=1", "redeliveryDelay=0")
    reading = asyncio.create_task(be_reminded(cluster.uri, book))
    await schedule(cluster.uri, book)
    console.print(f"{REMINDER_COUNT} reminders are scheduled; {WORKERS} workers take orders")
    await asyncio.gather(*(crew.hire() for _ in range(WORKERS)))
    burying = asyncio.create_task(bury_and_retry(cluster, crew, book, console))
    sending = asyncio.create_task(send_orders(cluster.uri, book))
    await asyncio.sleep(REMINDER_SECONDS / 4)
    console.print("[bold red]kill -9[/] of a worker; another one joins")
    crew.kill_one()
    await crew.hire()
    await asyncio.sleep(REMINDER_SECONDS / 4)
    await kill_leader(cluster, console)
    await asyncio.gather(sending, burying)
    await until(lambda: len(book.handled) == book.sent.total() and book.is_poison_done)
    await until(lambda: {body for body, *_ in book.reminded} == book.due.keys())
    await asyncio.sleep(1.0)  # What would be fired or delivered once more has had its time.
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await crew.end()
    return book


def account(book: Book) -> tuple[Table, bool]:
    """The act's account, and whether all was as promised."""
    fired: dict[str, set[str]] = defaultdict(set)
    for body, message_id, _, _ in book.reminded:
        fired[body].add(message_id)
    late = [at - book.due[body] for body, _, at, _ in book.reminded]
    must_be_none = {
        "orders lost": book.sent.total() - len(book.handled),
        "orders of a customer out of order": book.out_of_order,
        "customers in two workers' hands": book.in_two_hands,
        "orders delivered again, not flagged": book.unflagged,
        "reminders fired twice": sum(len(ids) > 1 for ids in fired.values()),
        "reminders that never fired": len(book.due) - len(fired),
        "reminders before their time": sum(seconds < 0 for seconds in late),
    }
    is_right = not any(must_be_none.values()) and bool(book.cause) and book.is_poison_done
    table = Table(title="The second act", show_header=False, title_style="bold")
    table.add_column(justify="left")
    table.add_column(justify="right", style="bold")
    table.add_row("orders sent and confirmed", f"{book.sent.total():,}")
    table.add_row("orders handled", f"{len(book.handled):,}")
    table.add_row("orders delivered again, flagged", f"{sum(t['redelivered'] for t in book.got):,}")
    table.add_row("workers that died", f"{len(book.died):,}")
    table.add_row("the poison's reason as a dead letter", book.cause or "[red]none[/]")
    retried = "[green]handled[/]" if book.is_poison_done else "[red]not handled[/]"
    table.add_row("the poison, retried", retried)
    table.add_row("reminders fired once, over the failover", f"{len(fired):,}")
    table.add_row("latest reminder", f"{max(late, default=0.0):,.2f} s after its time")
    for label, count in must_be_none.items():
        table.add_row(label, f"[{'red' if count else 'green'}]{count:,}[/]")
    return table, is_right


async def second_act(cluster: LocalCluster, console: Console) -> bool:
    """Run the act on a cluster that works; prints the account, and gives whether it is right."""
    table, is_right = account(await play(cluster, console))
    console.print(table)
    return is_right
