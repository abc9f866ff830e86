"""
Sharing out the limit of open files: the log first, clients get the rest.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.admin.places import guest_count_max
from holdfast.config.node import NodeConfig
from holdfast.errors import ConfigError
from holdfast.server.descriptors import CLIENTS_MIN, SET_ASIDE, share_out


def config(tmp_path: Path, *, is_cluster: bool, **flags: object) -> NodeConfig:
    members = [f"{name}=127.0.0.1:{port}" for name, port in (("a", 1), ("b", 2), ("c", 3))]
    if is_cluster:
        flags |= {"members": members, "name": "a"}
    return NodeConfig.load(flags={"data": str(tmp_path), **flags}, environment={})


@pytest.mark.parametrize("is_cluster", [False, True])
@pytest.mark.parametrize("open_files", [256, 512, 1024, 4096, 65_536, 1 << 20])
def test_the_shares_never_exceed_the_limit(
    tmp_path: Path, open_files: int, is_cluster: bool
) -> None:
    """
    Whoever fills every port, the files of the log, two for each reader, still find theirs.
    """
    shares = share_out(open_files, config(tmp_path, is_cluster=is_cluster))
    taken = SET_ASIDE + shares.read_files + shares.clients + shares.passing
    taken += 2 * shares.admin + guest_count_max(shares.admin)
    taken += shares.strangers if is_cluster else 0
    assert taken + 32 <= open_files
    assert shares.clients >= CLIENTS_MIN
    assert shares.clients <= 10_000


def test_with_room_everybody_gets_what_is_configured(tmp_path: Path) -> None:
    """
    The limit that is wanted is exactly the one at which nothing is cut.
    """
    settings = config(tmp_path, is_cluster=True)
    wanted = share_out(1 << 20, settings).wanted
    shares = share_out(wanted, settings)
    assert (shares.clients, shares.admin, shares.strangers) == (10_000, 64, 64)
    assert share_out(wanted - 1_100, settings).clients < 10_000


@pytest.mark.parametrize("is_cluster", [False, True])
def test_a_limit_too_small_to_serve_anybody_is_refused(tmp_path: Path, is_cluster: bool) -> None:
    """
    The sentence says what to set, and with that it does start.
    """
    settings = config(tmp_path, is_cluster=is_cluster)
    with pytest.raises(ConfigError, match="this process may have 100, which leaves no") as caught:
        share_out(100, settings)
    least = re.search(r"allow it (\d+) or more, better 10,\d+", str(caught.value))
    assert least is not None
    assert share_out(int(least[1]), settings).clients >= CLIENTS_MIN
