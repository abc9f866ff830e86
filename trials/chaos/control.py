"""
How the runner tells the switch or the forwarders what to do: one JSON line there, one back.

The other side is a process of its own, so that neither the runner's load nor a debugger that stops
it slows the network. When this side of the socket closes, be it by the runner's death, it ends
every program of the network that is still there, and itself.

Invariants:
    What was asked for is in force when `ask` returns.
    Nothing outlives the runner by more than a moment, not even what a program started and left.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from trials.chaos.host_thread import HOST_VARIABLE
from trials.chaos.network import (
    NO_TROUBLE,
    Counts,
    LinkCounts,
    LinkState,
    LinkTrouble,
    NetworkUnavailableError,
)

_ANSWER_SECONDS = 20.0
_END_SECONDS = 15.0
_NICENESS = -5


class LinkTable:
    """The directed links in the process that carries them."""

    def __init__(self, hosts: Iterable[str]) -> None:
        names = list(hosts)
        self.links = {
            (source, target): LinkState(source, target)
            for source in names
            for target in names
            if source != target
        }

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do what a line of the runner asks, and give what to answer."""
        match order["do"]:
            case "trouble":
                link = self.links[order["source"], order["target"]]
                trouble = LinkTrouble.from_json(order["trouble"])
                link.trouble = NO_TROUBLE if trouble.is_none else trouble
                return {}
            case "heal":
                for link in self.links.values():
                    link.trouble = NO_TROUBLE
                return {}
            case "counts":
                return {
                    "links": [
                        [link.source, link.target, asdict(link.counts)]
                        for link in self.links.values()
                    ]
                }
            case unknown:
                raise ValueError(f"nobody knows how to {unknown}")


def cut_lines(buffer: bytearray) -> list[dict[str, Any]]:
    """Take the whole lines off a buffer, and give the order in each."""
    end = buffer.rfind(b"\n")
    lines = bytes(buffer[: end + 1]).splitlines()
    del buffer[: end + 1]
    return [json.loads(line) for line in lines]


def encode_line(fields: dict[str, Any]) -> bytes:
    """One line."""
    return json.dumps(fields).encode() + b"\n"


def take_precedence() -> None:
    """Let this process go before the hosts' where we may: a network does not wait for a CPU."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)


class CarrierControl:
    """The process that carries the traffic, and the runner's line to it."""

    def __init__(
        self, module: str, mark: str, settings: dict[str, Any], pass_fds: Sequence[int] = ()
    ) -> None:
        """
        Start the process and wait until it is ready.

        Raises:
            NetworkUnavailableError: It could not start; the sentence tells its own reason.
        """
        ours, theirs = socket.socketpair()
        ours.settimeout(_ANSWER_SECONDS)
        self._socket = ours
        self._lines = ours.makefile("rb")
        self._lock = threading.Lock()
        settings = settings | {"mark": mark}
        self.process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", module, str(theirs.fileno()), json.dumps(settings)],
            pass_fds=(theirs.fileno(), *pass_fds),
            stdin=subprocess.DEVNULL,
            env=os.environ | {HOST_VARIABLE: mark},
            start_new_session=True,
        )
        theirs.close()
        first = self._answer()
        if "problem" in first:
            self.close()
            raise NetworkUnavailableError(str(first["problem"]))

    def ask(self, **order: Any) -> dict[str, Any]:
        """Send one order and wait until it is carried out. Raises RuntimeError if it cannot be."""
        with self._lock:
            self._socket.sendall(encode_line(order))
            answer = self._answer()
        if "problem" in answer:
            raise RuntimeError(f"the network did not {order['do']}: {answer['problem']}")
        return answer

    def trouble(self, source: str, target: str, trouble: LinkTrouble) -> None:
        """Let this be wrong with one directed link."""
        self.ask(do="trouble", source=source, target=target, trouble=trouble.to_json())

    def counts(self) -> Counts:
        """What every link carried."""
        rows = self.ask(do="counts")["links"]
        return {(source, target): LinkCounts(**fields) for source, target, fields in rows}

    def close(self) -> None:
        """End what still runs on the hosts, and the process; returns when all is gone."""
        self._lines.close()
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
            return
        self.process.kill()
        self.process.wait()

    def _answer(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            return {"problem": "the process that carries the traffic is gone"}
        answer: dict[str, Any] = json.loads(line)
        return answer
