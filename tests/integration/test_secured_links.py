"""
Links between members by TLS, with real drivers, journals and sockets in one process (S12).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from holdfast.replication.membership import Member, Membership
from holdfast.replication.peer_tls import PeerTls
from holdfast.testing.free_ports import free_ports
from holdfast.transport.certificates import make_node, open_authority
from holdfast.transport.handshakes import Handshakes
from holdfast.transport.settings import PortSettings
from holdfast.transport.tls import ServerTls, TlsOptions
from tests.integration.test_peer_links import PATIENT, Node, leader_of, silence, until

pytestmark = pytest.mark.slow

SECRET = b"secret"


class Company:
    """Three members, each with its certificate, that may be stopped and started in another way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        authority, _ = open_authority(folder)
        for name in "abc":
            make_node(authority, folder / f"{name}.pem", name, [], 1)
        ports = zip("abc", free_ports(3), strict=True)
        self.members = Membership(tuple(Member(n, f"127.0.0.1:{p}") for n, p in ports))
        self.nodes: dict[str, Node] = {}

    def tls(self, mode: str, certificate: Path, authority: Path) -> PeerTls | None:
        if mode == "off":
            return None
        options = TlsOptions(
            name="peers", certificate=certificate, client_ca=authority, client="required"
        )
        shown = ServerTls(options, dials=True)
        lines = Handshakes(PortSettings()), Handshakes(PortSettings())
        return PeerTls(shown, *lines, is_required=mode == "require")

    async def start(
        self,
        name: str,
        mode: str,
        *,
        certificate: str = "",
        authority: str = "ca.pem",
        secret: bytes = SECRET,
    ) -> None:
        member = next(it for it in self.members.members if it.name == name)
        file = self.folder / (certificate or f"{name}.pem")
        tls = self.tls(mode, file, self.folder / authority)
        node = self.nodes[name] = Node(self.folder, member, self.members, secret, PATIENT, tls)
        await node.start()

    async def stop(self) -> None:
        for node in self.nodes.values():
            if not node.is_stopped:
                await node.stop()

    def leader(self) -> Node:
        found = leader_of(self.nodes)
        assert found is not None
        return found

    def secured(self) -> dict[str, set[str]]:
        return {name: node.links.secured() for name, node in self.nodes.items()}


ALL_SECURED = {"a": {"b", "c"}, "b": {"a", "c"}, "c": {"a", "b"}}


async def level(company: Company, bodies: list[bytes]) -> None:
    await until(lambda: all(it.bodies == bodies for it in company.nodes.values()))


def run(scenario: Callable[[Company], object], folder: Path) -> None:
    async def whole() -> None:
        company = Company(folder)
        try:
            await scenario(company)  # type: ignore[misc]
        finally:
            await company.stop()

    uvloop.run(whole())


def test_entries_of_any_size_reach_everybody_by_tls(tmp_path: Path) -> None:
    """Small ones and one of many records; then a leader that is gone is noticed at once."""

    async def scenario(company: Company) -> None:
        for name in "abc":
            await company.start(name, "require")
        await until(lambda: leader_of(company.nodes) is not None)
        leader = company.leader()
        bodies = [b"small %d" % number for number in range(200)] + [bytes(range(256)) * 12 * 1024]
        for body in bodies:
            leader.propose(body)
        await level(company, bodies)
        await until(lambda: company.secured() == ALL_SECURED)
        await leader.stop()
        seconds = await until(lambda: leader_of(company.nodes) is not None)
        assert seconds < PATIENT.election_seconds_min / 2

    run(scenario, tmp_path)


def test_a_running_cluster_is_changed_over_node_by_node(tmp_path: Path) -> None:
    """
    From clear to accept to require: at each step a majority goes on, every entry reaches
    everybody, and at the end all links go by TLS.
    """

    async def scenario(company: Company) -> None:
        for name in "abc":
            await company.start(name, "off")
        await until(lambda: leader_of(company.nodes) is not None)
        bodies: list[bytes] = []
        for mode in ("accept", "require"):
            for name in "abc":
                await company.nodes[name].stop()
                await until(lambda: leader_of(company.nodes) is not None)
                bodies.append(f"{mode} without {name}".encode())
                company.leader().propose(bodies[-1])
                await company.start(name, mode)
                await level(company, bodies)  # The one that came back applies all of them again.
            await until(lambda: company.secured() == ALL_SECURED)

    run(scenario, tmp_path)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"certificate": "b.pem"}, "its certificate is that of b, localhost, not of c"),
        ({"certificate": "other/c.pem"}, "certificate"),
        ({"certificate": "other/c.pem", "authority": "other/ca.pem"}, "certificate"),
        ({"secret": b"another secret"}, "secret"),
        ({"mode": "off"}, "peer_tls = 'require'"),
    ],
    ids=["another's name", "wrong authority", "both of another", "wrong secret", "in clear"],
)
def test_whoever_lacks_one_of_the_two_stays_outside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, given: dict[str, object], told: str
) -> None:
    """
    A certificate of the authority with the member's name, and the secret: with one of them alone
    nobody gets a link, and the two others go on.
    """
    other, _ = open_authority(tmp_path / "other")
    make_node(other, tmp_path / "other" / "c.pem", "c", [], 1)
    given = dict(given)
    mode = str(given.pop("mode", "require"))

    async def scenario(company: Company) -> None:
        for name in "abc":  # Once in the right way, so that there is a cluster.
            await company.start(name, "require")
        await until(lambda: leader_of(company.nodes) is not None)
        await company.nodes.pop("c").stop()
        await until(lambda: leader_of(company.nodes) is not None)
        with caplog.at_level(logging.WARNING):
            await company.start("c", mode, **given)  # type: ignore[arg-type]
            await until(lambda: told in caplog.text, 10.0)
            company.leader().propose(b"goes on")
            living = [company.nodes[it] for it in "ab"]
            await until(lambda: all(it.bodies[-1:] == [b"goes on"] for it in living))
            assert company.nodes["c"].driver.leader is None
            assert company.nodes["c"].bodies[-1:] != [b"goes on"]

    run(scenario, tmp_path)


def test_who_says_nothing_is_let_go_and_keeps_nobody_out(tmp_path: Path) -> None:
    """Connections that never begin take no member's place while a node comes back."""

    async def scenario(company: Company) -> None:
        for name in "abc":
            await company.start(name, "require")
        await until(lambda: leader_of(company.nodes) is not None)
        await company.nodes.pop("c").stop()
        ports = [int(it.links.address.rpartition(":")[2]) for it in company.nodes.values()]
        with silence(ports, 150):
            began = time.monotonic()
            await company.start("c", "require")
            await until(lambda: company.secured() == ALL_SECURED)
            assert time.monotonic() - began < 10.0

    run(scenario, tmp_path)
