"""
The same demonstration on one broker with two directories that hold the same.

Under traffic the second directory is removed, as if its disk were gone. The broker goes on with the
first one; then an empty directory takes the place and is filled while traffic goes on; then the
broker gets SIGKILL and starts on both. At the end every message is accounted for, and the logs of
the two directories are compared by hash chain.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console

from holdfast.testing.local_cluster import LocalCluster, LocalNode

TOPOLOGY = "mirror"
ALIKE_SECONDS = 120.0


def run(
    folder: Path,
    console: Console,
    seconds: float,
    traffic: Callable[[LocalCluster, Callable[[], Any]], Any],
) -> tuple[Any, float, list[Path]]:
    """Play it; gives the account, the time of the restart, and both directories."""
    second = folder / "second-disk"
    with LocalCluster(folder, "single", ["--data", str(second)]) as cluster:
        console.rule("[bold]Holdfast: one broker, two disks, lose one")
        node = cluster.start()
        console.print(f"[bold green]{node.name}[/] serves with {node.data.name} and {second.name}")
        account, returned = uvloop.run(
            traffic(cluster, lambda: disaster(node, second, console, seconds))
        )
        node.stop()
        return account, returned, [node.data, second]


def _remove(directory: Path) -> None:
    """At once, as a disk goes: what is removed piece by piece is mended while it goes."""
    shutil.rmtree(directory.rename(directory.with_name("gone")))


async def disaster(node: LocalNode, second: Path, console: Console, seconds: float) -> float:
    """Lose a disk, fill an empty one, kill the broker; how long that takes to be back."""
    await asyncio.sleep(seconds / 4)
    console.print(f"[bold red]{second.name} is gone[/]: its directory is removed")
    await asyncio.to_thread(_remove, second)
    await asyncio.to_thread(_wait, node, ["active", "failed"])
    console.print(f"{node.name} goes on with {node.data.name} alone")
    await asyncio.sleep(seconds / 4)
    console.print(f"[bold]holdfast mirror enable {second.name}[/], an empty directory now")
    await asyncio.to_thread(_enable, node, second)
    await asyncio.to_thread(_wait, node, ["active", "active"])
    console.print(f"[bold green]{second.name}[/] has everything again")
    await asyncio.sleep(seconds / 8)
    console.print(f"[bold red]kill -9[/] of [bold]{node.name}[/] (pid {node.pid}), started again")
    began = time.monotonic()
    node.kill()
    node.start()
    await asyncio.to_thread(_wait, node, ["active", "active"])
    console.print(f"[bold green]{node.name}[/] serves on both")
    return time.monotonic() - began


def _wait(node: LocalNode, states: list[str]) -> None:
    """Wait until the directories, in the order in which they are given, are so."""
    node.wait_until(
        lambda status: [it["state"] for it in status["store"]["mirrors"]] == states,
        " and ".join(states),
        ALIKE_SECONDS,
    )


def _enable(node: LocalNode, directory: Path) -> None:
    command = [sys.executable, "-m", "holdfast", "mirror", "enable", str(directory)]
    subprocess.run(  # noqa: S603 - our own program
        [*command, "--admin", node.admin], check=True, stdout=subprocess.DEVNULL
    )
