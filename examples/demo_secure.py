"""
The same demonstration on three nodes where nothing goes in clear and nobody comes in unknown.

An authority is made, and a certificate for each node: clients, operators and members speak TLS.
Users are made and granted what they need and no more. Under traffic a user is removed and is cut
off in the middle of what it does, what it had goes to others; each node's certificate is renewed
and read anew without a restart; the leader gets SIGKILL. At the end every message is accounted for,
and the nodes have noted who did what.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from holdfast.client import connect
from holdfast.errors import HoldfastError
from holdfast.testing.free_ports import free_ports
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from holdfast.transport.certificates import Authority, make_node, open_authority

TOPOLOGY = "secure"
QUEUE = "queue://demo.>"
CUT_SECONDS_MAX = 10.0
Way = tuple[str, dict[str, str]]
"""Where a client connects, and what it shows of itself."""
SHOP, OFFICE, TEMP = "shop", "office", "temp"


class SecureCluster:
    """Three nodes with certificates, and the users of the demonstration with their passwords."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority: Authority
        self.authority, _ = open_authority(folder / "authority")
        self.passwords = {name: secrets.token_urlsafe(12) for name in (SHOP, OFFICE, TEMP)}
        self.cluster = LocalCluster(folder, "three", [])
        self.ports = dict(zip(self.cluster.nodes, free_ports(3), strict=True))
        for node in self.cluster.nodes.values():
            self.renew(node)
            settings = folder / f"{node.name}.toml"
            settings.write_text(_settings(folder, node.name))
            listen = f"{node.host}:{self.ports[node.name]},tls=own"
            node.arguments += ["--config", str(settings), "--listen", listen]
            node.arguments += ["--audit-file", str(folder / f"{node.name}.audit")]

    @property
    def trust(self) -> Path:
        """Whose word is taken on a certificate."""
        return self.folder / "authority" / "ca.pem"

    def renew(self, node: LocalNode) -> None:
        """Put a new certificate in place of a node's."""
        make_node(self.authority, self.folder / f"{node.name}.pem", node.name, [], 30)

    def way(self, name: str) -> Way:
        """Where a user's client connects, by TLS, and its name and password."""
        inner = ",".join(f"stomp+ssl://127.0.0.1:{port}" for port in self.ports.values())
        options = f"initialReconnectDelay=10&maxReconnectDelay=100&nested.caFile={self.trust}"
        if name == TEMP:  # Who is to be sent away does not come again for ever.
            options += "&maxReconnectAttempts=6&startupMaxReconnectAttempts=6"
        who = {"login": name, "passcode": self.passwords[name]}
        return f"failover:({inner})?{options}", who

    def serial(self, node: LocalNode) -> str:
        """The certificate that a node shows now, by its end."""
        context = ssl.create_default_context(cafile=self.trust)
        address = (node.host, node.admin_port)  # Clients' ports are open at the leader only.
        with (
            socket.create_connection(address, timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as shown,
        ):
            found: Any = shown.getpeercert()
            return str(found["serialNumber"])

    def command(self, *words: str, said: str = "") -> str:
        """Give a command at a node that runs, as its operator does; give what it prints."""
        node = next(it for it in self.cluster.nodes.values() if it.is_running)
        whole = [sys.executable, "-m", "holdfast", *words, "--admin", node.admin]
        done = subprocess.run(  # noqa: S603 - our own program
            whole, input=said, capture_output=True, text=True, cwd=node.data, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"holdfast {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout


def _settings(folder: Path, name: str) -> str:
    table = [
        'admin_tls = "own"',
        'peer_tls = "require"',
        "[tls.own]",
        f'certificate = "{folder}/{name}.pem"',
        f'ca = "{folder}/authority/ca.pem"',
        "[tls.peers]",
        f'certificate = "{folder}/{name}.pem"',
        f'client_ca = "{folder}/authority/ca.pem"',
        'client = "required"',
    ]
    return "\n".join(table) + "\n"


async def _consume_until_cut(way: Way, seen: Callable[[Any], None]) -> str:
    """Take messages as a user who is going to be removed; gives what it is told then."""
    try:
        async with (
            connect(way[0], **way[1]) as connection,
            connection.subscribe("/queue/demo.orders", prefetch=50) as subscription,
        ):
            async for message in subscription:
                seen(message)
                await message.acknowledge()
    except HoldfastError as error:
        return str(error)
    return ""


class Story:
    """What is done under the traffic, told as it happens."""

    def __init__(self, secure: SecureCluster, console: Console, seconds: float) -> None:
        self.secure = secure
        self.console = console
        self.pause = seconds / 5
        self.cut_seconds = -1.0
        self.told = ""
        self.is_refused = self.is_renewed = False

    @property
    def is_right(self) -> bool:
        """Whether all went as it should."""
        is_cut = 0 <= self.cut_seconds <= CUT_SECONDS_MAX
        return is_cut and self.is_refused and self.is_renewed

    async def play(self, seen: Callable[[Any], None]) -> float:
        """Remove a user, renew the certificates, kill the leader; how long it took to be back."""
        temp = asyncio.create_task(_consume_until_cut(self.secure.way(TEMP), seen))
        await asyncio.sleep(self.pause)
        await self._remove(temp)
        await asyncio.sleep(self.pause / 2)
        await asyncio.to_thread(self._renew)
        await asyncio.sleep(self.pause / 2)
        return await self._kill()

    async def _remove(self, temp: asyncio.Task[str]) -> None:
        began = time.monotonic()
        await asyncio.to_thread(self.secure.command, "users", "remove", TEMP)
        with suppress(TimeoutError):
            self.told = await asyncio.wait_for(temp, CUT_SECONDS_MAX)
            self.cut_seconds = time.monotonic() - began
        self.console.print(
            f"[bold red]{TEMP} is removed[/] and cut off while it works, {self.cut_seconds:.2f} s"
            f" after the command began: {self.told!r}"
        )
        try:
            uri, who = self.secure.way(TEMP)
            async with connect(uri, **who):
                pass
        except HoldfastError as error:
            self.is_refused = True
            self.console.print(f"it comes again and is refused: {error}")

    def _renew(self) -> None:
        nodes = self.secure.cluster.nodes.values()
        before = [self.secure.serial(it) for it in nodes]
        for node in nodes:
            self.secure.renew(node)
        for node in nodes:
            whole = [sys.executable, "-m", "holdfast", "reload", "--admin", node.admin]
            subprocess.run(  # noqa: S603 - our own program
                whole, check=True, capture_output=True, cwd=node.data
            )
        after = [self.secure.serial(it) for it in nodes]
        self.is_renewed = not set(before) & set(after)
        self.console.print(
            f"[bold]holdfast reload[/]: {len(after)} nodes show new certificates, nobody was"
            f" disconnected"
        )

    async def _kill(self) -> float:
        cluster = self.secure.cluster
        leader = await asyncio.to_thread(cluster.leader)
        self.console.print(f"[bold red]kill -9[/] of the leader [bold]{leader.name}[/]")
        leader.kill()
        successor = await asyncio.to_thread(cluster.leader, 30.0, leader)
        self.console.print(f"[bold green]{successor.name}[/] has taken over")
        await asyncio.sleep(self.pause)
        began = time.monotonic()
        leader.start()
        await asyncio.to_thread(cluster.wait_level)
        self.console.print(f"[bold green]{leader.name}[/] is back and has caught up")
        return time.monotonic() - began


def make_users(secure: SecureCluster, console: Console) -> None:
    """Make the users and grant what each needs, by the commands that an operator has."""
    secure.command(
        "users", "add", "root", "--role", "admin", "--password-stdin", said="a long one\n"
    )
    for name, role, rights in ((SHOP, "shops", "write,admin"), (OFFICE, "offices", "read,admin")):
        said = f"{secure.passwords[name]}\n"
        secure.command("users", "add", name, "--role", role, "--password-stdin", said=said)
        secure.command("grant", role, rights, QUEUE)
    said = f"{secure.passwords[TEMP]}\n"
    secure.command("users", "add", TEMP, "--role", "offices", "--password-stdin", said=said)
    console.print(
        f"users: [bold]{SHOP}[/] may send to {QUEUE}, [bold]{OFFICE}[/] and [bold]{TEMP}[/] may"
        f" read it, each of them makes what is not there, [bold]root[/] governs"
    )


def show_changes(secure: SecureCluster, console: Console) -> None:
    """Print what the nodes noted of logins and changes, counted."""
    counts: dict[tuple[str, str, str], int] = {}
    for path in sorted(secure.folder.glob("*.audit")):
        for line in path.read_text().splitlines():
            said = json.loads(line)
            key = (said.get("who") or "-", said["action"], said["outcome"])
            counts[key] = counts.get(key, 0) + 1
    table = Table(title="Who did what, as the nodes noted it", title_style="bold")
    for name in ("who", "action", "outcome", "times"):
        table.add_column(name, justify="right" if name == "times" else "left")
    for (who, action, outcome), count in sorted(counts.items()):
        table.add_row(who, action, outcome, f"{count:,}")
    console.print(table)


def run(
    folder: Path,
    console: Console,
    seconds: float,
    traffic: Callable[[tuple[Way, Way], Callable[[Callable[[Any], None]], Any]], Any],
) -> tuple[LocalCluster, Any, float, bool]:
    """Play it; gives the stopped cluster, the account, the time to catch up, if all was right."""
    secure = SecureCluster(folder)
    with secure.cluster as cluster:
        console.rule("[bold]Holdfast: TLS everywhere, users, grants, and the leader killed")
        leader = cluster.start()
        console.print(f"[bold green]{leader.name}[/] leads; clients by TLS on {secure.ports}")
        make_users(secure, console)
        story = Story(secure, console, seconds)
        ways = (secure.way(SHOP), secure.way(OFFICE))
        account, caught_up = uvloop.run(traffic(ways, story.play))
        cluster.wait_level()
        for node in cluster.nodes.values():
            node.stop()
    show_changes(secure, console)
    return secure.cluster, account, caught_up, story.is_right
