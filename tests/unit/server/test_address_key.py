"""What the addresses of temporary destinations are made of: never of what anybody may see."""

from __future__ import annotations

import hmac
from pathlib import Path

import pytest

from holdfast.environment.randomness import SystemRandomness
from holdfast.server.address_key import AddressKey
from holdfast.server.pepper import Pepper

SECRET = b"s" * 32
LOG = "ab" * 16


def of(directory: Path, secret: bytes = b"", *, log: str = LOG, is_shared: bool = False) -> bytes:
    """The key of a process that has just been started."""
    pepper = Pepper(secret, (directory,), is_shared=is_shared)
    made = AddressKey(secret, pepper, SystemRandomness())
    made.cluster_id = log
    return made.key()


def worked_out(known: bytes) -> bytes:
    """What somebody makes of something that he knows, by the rule that is no secret."""
    label = b"holdfast temporary addresses 1 " + LOG.encode()
    return hmac.digest(known, label, "sha256")


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_identity_of_the_log_alone_gives_nothing_away(tmp_path: Path, is_shared: bool) -> None:
    """Without a secret and without passwords it is chance, of this process and of no other."""
    first, second = (of(tmp_path, is_shared=is_shared) for _ in range(2))
    assert len({first, second, worked_out(b""), worked_out(LOG.encode())}) == 4


def test_nodes_with_a_secret_have_the_same(tmp_path: Path) -> None:
    """Under the next leader the addresses are what they were; another log's are others."""
    other = tmp_path / "other"
    other.mkdir()
    keys = {of(it, SECRET, is_shared=True) for it in (tmp_path, other)}
    assert keys == {worked_out(SECRET)}
    assert of(tmp_path, SECRET, log="cd" * 16) not in keys


def test_a_node_alone_has_that_of_its_passwords(tmp_path: Path) -> None:
    """After a restart the addresses are what they were, and nobody elsewhere can make them."""
    Pepper(b"", (tmp_path,), is_shared=False).need()
    assert of(tmp_path) == of(tmp_path) != worked_out(b"")


def test_it_stays_while_the_process_lives(tmp_path: Path) -> None:
    """The first password that is set does not take what waits from who comes back."""
    pepper = Pepper(b"", (tmp_path,), is_shared=False)
    made = AddressKey(b"", pepper, SystemRandomness())
    assert made.key() == b"", "a log without an identity has no clients"
    made.cluster_id = LOG
    before = made.key()
    pepper.need()
    assert made.key() == before != b""


def test_the_first_password_counts_before_the_first_client(tmp_path: Path) -> None:
    """What was made of chance would be another one after the next restart."""
    pepper = Pepper(b"", (tmp_path,), is_shared=False)
    made = AddressKey(b"", pepper, SystemRandomness())
    made.cluster_id = LOG
    pepper.need()
    assert made.key() == of(tmp_path)
