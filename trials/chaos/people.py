"""
The users of a chaos run, and the search for what they showed in every file that it leaves.

All clients are one user, some by his password and some by a token of his, so that whoever is killed
finds its durable subscriptions again by either. An operator asks each node, by his password and,
once, by a wrong one. None of these words may be found afterwards: not in a log, a history, an audit
file, a data directory or what a process left of its memory.

Invariants:
    No word stands on a command line, nor in a file that is written here.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Final

from holdfast.admin.remote import RemoteNode
from holdfast.model.format_level import ACCESS_LEVEL
from holdfast.testing.local_cluster import LocalNodeError
from trials.chaos.cluster import ChaosCluster
from trials.chaos.worker import LOGIN_VARIABLE, PASSCODE_VARIABLE

CLIENT_USER: Final = "chaos-client"
OPERATOR_USER: Final = "chaos-operator"

_ROLE: Final = "chaos"
_PASSWORD_BYTES: Final = 18
_LEVEL_SECONDS_MAX: Final = 30.0
_ANSWER_SECONDS: Final = 5.0
_PIECE_BYTES: Final = 4 << 20


@dataclass(slots=True)
class People:
    """Who there is in one run."""

    password: str = field(repr=False)
    token: str = field(repr=False)
    operators_password: str = field(repr=False)
    mistyped: str = field(repr=False)
    """What the operator types by mistake; it looks like a password of somebody."""

    let_in: list[str] = field(default_factory=list)
    """Nodes that let the operator in."""

    @classmethod
    def settle(cls, cluster: ChaosCluster) -> People:
        """
        Make the users of a cluster whose nodes are all there.

        Raises:
            LocalNodeError: It does not come to the level of users.
            HoldfastError: One cannot be made.
        """
        leader = cluster.leader()
        deadline = time.monotonic() + _LEVEL_SECONDS_MAX
        while (leader.status() or {}).get("format_level", 0) < ACCESS_LEVEL:
            if time.monotonic() > deadline:
                raise LocalNodeError(f"{leader.name} never came to the level of users")
            time.sleep(0.05)
        node = RemoteNode(leader.admin, secret=cluster.secret)
        words = [secrets.token_urlsafe(_PASSWORD_BYTES) for _ in range(3)]
        for pattern in ("queue://>", "topic://>"):
            granted = {"role": _ROLE, "rights": "read,write,admin", "pattern": pattern}
            node.change("POST", "/grants", granted)
        for user, role, word in (
            (CLIENT_USER, _ROLE, words[0]),
            (OPERATOR_USER, "viewer", words[1]),
        ):
            node.change("POST", "/users", {"name": user, "roles": [role], "password": word})
        made = node.change("POST", "/users/tokens", {"name": CLIENT_USER, "token": "run"})
        return cls(words[0], str(made["token"]), words[1], words[2])

    def environment(self, worker: str) -> Mapping[str, str]:
        """Give by what a worker logs in: those that consume by the token, else by the password."""
        passcode = self.token if "consumers" in worker else self.password
        return {LOGIN_VARIABLE: CLIENT_USER, PASSCODE_VARIABLE: passcode}

    def visit(self, cluster: ChaosCluster) -> None:
        """Have the operator ask each node, once with what he mistyped."""
        for node in cluster.nodes.values():
            for word, expected in (
                (self.operators_password, HTTPStatus.OK),
                (self.mistyped, HTTPStatus.UNAUTHORIZED),
            ):
                basic = b64encode(f"{OPERATOR_USER}:{word}".encode()).decode()
                named = {"Authorization": f"Basic {basic}"}
                request = urllib.request.Request(f"http://{node.admin}/status", headers=named)
                if _status_of(request) == expected == HTTPStatus.OK:
                    self.let_in.append(node.name)

    @property
    def words(self) -> dict[str, bytes]:
        """What must be found nowhere, by what it is."""
        plain = {
            "the clients' password": self.password,
            "the clients' token": self.token,
            "the operator's password": self.operators_password,
            "what the operator mistyped": self.mistyped,
        }
        return {
            **{name: word.encode() for name, word in plain.items()},
            **{
                f"{name} in a header": b64encode(f"{OPERATOR_USER}:{word}".encode())
                for name, word in plain.items()
            },
        }

    def left_in(self, folder: Path) -> list[str]:
        """Say where one of the words stands in a file below a folder."""
        return [f"{name} stands in {path}" for path, name in found_in(folder, self.words)]


def _status_of(request: urllib.request.Request) -> int:
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - http
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def found_in(folder: Path, words: Mapping[str, bytes]) -> Iterator[tuple[Path, str]]:
    """
    Find words in every file below a folder, whatever kind of file it is; gives each once a file.

    The folder is told of as a part of it: `clients/h-producers.log`. Links are not followed.
    """
    for directory, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(directory) / name
            for word in _words_of(path, words):
                yield path.relative_to(folder), word


def _words_of(path: Path, words: Mapping[str, bytes]) -> list[str]:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode) or not status.st_size:
        return []
    found: set[str] = set()
    overlap = max(map(len, words.values())) - 1
    kept = b""
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            text = kept + piece
            found |= {name for name, word in words.items() if word in text}
            kept = text[max(len(text) - overlap, 0) :]
    return [name for name in words if name in found]
