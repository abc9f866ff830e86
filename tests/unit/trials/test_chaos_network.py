"""
What troubled links do to packets and bytes, decided without any socket; and who the members are.
"""

from __future__ import annotations

import random
import socket
import struct

import pytest

from trials.chaos.cluster import CHAOS_TOPOLOGIES
from trials.chaos.connection_owner import find_inode
from trials.chaos.control import LinkTable, cut_lines, encode_line
from trials.chaos.leftovers import host_of
from trials.chaos.network import (
    CUT,
    LATE_SECONDS,
    NO_TROUBLE,
    LinkTrouble,
    NetworkUnavailableError,
    cut,
    open_network,
)
from trials.chaos.packet_switch import PacketSwitch, reset_of

ADDRESSES = {"a": "198.18.0.10", "b": "198.18.0.11", "c": "198.18.0.12"}


class Hosts:
    """Three hosts at a switch, and what each received."""

    def __init__(self) -> None:
        self.received: dict[str, list[bytes]] = {name: [] for name in ADDRESSES}
        self.has_room = True
        self.switch = PacketSwitch(ADDRESSES, self.write, random.Random(7))

    def write(self, host: str, packet: bytes) -> bool:
        if self.has_room:
            self.received[host].append(packet[20:])
        return self.has_room

    def send(self, source: str, target: str, text: bytes, now: float = 0.0) -> None:
        header = bytes(12) + socket.inet_aton(ADDRESSES[source])
        self.switch.carry(source, header + socket.inet_aton(ADDRESSES[target]) + text, now)

    def trouble(self, source: str, target: str, trouble: LinkTrouble) -> None:
        order = {"do": "trouble", "source": source, "target": target}
        self.switch.table.obey(order | {"trouble": trouble.to_json()})

    def counts(self, source: str, target: str):
        return self.switch.table.links[source, target].counts


@pytest.fixture
def hosts() -> Hosts:
    return Hosts()


def test_a_packet_goes_to_the_host_it_is_for(hosts: Hosts):
    """Nobody else receives it, and only its own link counts it."""
    hosts.send("a", "b", b"x")

    assert hosts.received == {"a": [], "b": [b"x"], "c": []}
    assert hosts.counts("a", "b").packets == 1
    assert hosts.counts("b", "a").packets == 0


def test_a_packet_for_nobody_is_dropped(hosts: Hosts):
    """A broadcast and an address without a host reach no host."""
    hosts.switch.carry("a", bytes(16) + socket.inet_aton("198.18.0.255") + b"x", 0.0)

    assert not any(hosts.received.values())


def test_a_cut_is_of_one_direction(hosts: Hosts):
    """What the other side sends still arrives; a heal ends the cut."""
    hosts.trouble("a", "b", CUT)
    hosts.send("a", "b", b"lost")
    hosts.send("b", "a", b"kept")
    hosts.switch.table.obey({"do": "heal"})
    hosts.send("a", "b", b"later")

    assert hosts.received == {"a": [b"kept"], "b": [b"later"], "c": []}
    assert hosts.counts("a", "b").dropped == 1


def test_a_reset_is_for_the_receiver_only(hosts: Hosts):
    """
    In the sender's name, with its numbers and true checksums; what is not TCP does not arrive.
    """
    ip = bytes.fromhex("450000300001400040060000") + bytes((10, 0, 0, 1, 10, 0, 0, 2))
    tcp = struct.pack(">HHIIBBHHH", 61616, 40000, 1234, 5678, 5 << 4, 0x18, 500, 0, 0)
    packet = ip + tcp + b"eight by"

    reset = reset_of(packet)

    assert reset is not None
    assert 40 == len(reset) == int.from_bytes(reset[2:4], "big")
    assert (61616, 40000, 1234, 5678) == struct.unpack(">HHII", reset[20:32])
    assert 0x14 == reset[33]
    pseudo = reset[12:20] + bytes((0, 6, 0, 20))
    for checked in (reset[:20], pseudo + reset[20:]):
        total = sum(struct.unpack(f">{len(checked) // 2}H", checked))
        assert 0xFFFF == (total & 0xFFFF) + (total >> 16)
    assert None is reset_of(ip[:9] + b"\x11" + ip[10:] + tcp)


def test_a_delayed_packet_arrives_when_it_is_due(hosts: Hosts):
    """Not before, and once only."""
    hosts.trouble("a", "b", LinkTrouble(delay_seconds=(0.5, 0.5)))
    hosts.send("a", "b", b"x", now=10.0)
    hosts.switch.deliver_due(10.4)
    early = list(hosts.received["b"])
    due = hosts.switch.due
    hosts.switch.deliver_due(10.5)
    hosts.switch.deliver_due(99.0)

    assert (early, due, hosts.received["b"]) == ([], 10.5, [b"x"])
    assert hosts.switch.due is None
    assert hosts.counts("a", "b").delayed == 1


def test_a_wide_delay_reorders(hosts: Hosts):
    """Of many packets with drawn delays some overtake others; none is lost."""
    hosts.trouble("a", "b", LinkTrouble(delay_seconds=(0.0, 1.0)))
    sent = [bytes([number]) for number in range(50)]
    for text in sent:
        hosts.send("a", "b", text)
    hosts.switch.deliver_due(2.0)

    assert hosts.received["b"] != sent
    assert sorted(hosts.received["b"]) == sent


def test_packets_are_lost_and_doubled_at_their_shares(hosts: Hosts):
    """A third lost and a third doubled, give or take."""
    hosts.trouble("a", "b", LinkTrouble(loss=1 / 3))
    hosts.trouble("a", "c", LinkTrouble(duplicate=1 / 3))
    for _ in range(3000):
        hosts.send("a", "b", b"x")
        hosts.send("a", "c", b"x")

    assert 1850 < len(hosts.received["b"]) < 2150
    assert len(hosts.received["b"]) + hosts.counts("a", "b").dropped == 3000
    assert 3850 < len(hosts.received["c"]) < 4150
    assert len(hosts.received["c"]) - hosts.counts("a", "c").duplicated == 3000


def test_a_late_packet_survives_the_heal(hosts: Hosts):
    """It arrives half a minute later, though its link has long been healed."""
    hosts.trouble("a", "b", LinkTrouble(late=1.0))
    hosts.send("a", "b", b"x", now=0.0)
    hosts.switch.table.obey({"do": "heal"})
    hosts.switch.deliver_due(LATE_SECONDS - 1)
    early = list(hosts.received["b"])
    hosts.switch.deliver_due(LATE_SECONDS)

    assert (early, hosts.received["b"]) == ([], [b"x"])
    assert hosts.counts("a", "b").late == 1


def test_what_is_under_way_is_lost_with_a_cut(hosts: Hosts):
    """A delayed packet does not cross a link that was cut meanwhile."""
    hosts.trouble("a", "b", LinkTrouble(delay_seconds=(1.0, 1.0)))
    hosts.send("a", "b", b"x")
    hosts.trouble("a", "b", CUT)
    hosts.switch.deliver_due(5.0)

    assert hosts.received["b"] == []
    assert hosts.counts("a", "b").dropped == 1


def test_what_waits_is_bounded(hosts: Hosts, monkeypatch: pytest.MonkeyPatch):
    """More than the bound is lost instead of filling the machine's memory."""
    hosts.trouble("a", "b", LinkTrouble(late=1.0))
    monkeypatch.setattr("trials.chaos.packet_switch.DELAYED_BYTES_MAX", 4_000)
    for _ in range(5):
        hosts.send("a", "b", bytes(1_000))

    assert hosts.counts("a", "b").delayed == 3
    assert hosts.counts("a", "b").dropped == 2


def test_a_packet_without_room_counts_as_dropped(hosts: Hosts):
    """What the kernel does not take is not counted as carried."""
    hosts.has_room = False
    hosts.send("a", "b", b"x")

    assert (hosts.counts("a", "b").packets, hosts.counts("a", "b").dropped) == (0, 1)


def test_a_stream_stalls_where_a_packet_would_be_lost():
    """The bytes of a connection are held for a retransmission's time, and delays come on top."""
    chance = random.Random(1)

    assert NO_TROUBLE.stream_delay(chance) == 0
    assert 0.2 <= LinkTrouble(loss=1.0).stream_delay(chance) <= 1.0
    assert 0.2 <= LinkTrouble(late=1.0).stream_delay(chance) <= 1.0
    assert 2.2 <= LinkTrouble(loss=1.0, delay_seconds=(2, 2)).stream_delay(chance) <= 3.0


@pytest.mark.parametrize(
    "fields",
    [{"loss": 1.5}, {"duplicate": -1}, {"late": 2}, {"delay_seconds": (2.0, 1.0)}],
)
def test_senseless_trouble_is_refused(fields):
    """A share beyond one and a longest delay below the shortest are mistakes."""
    with pytest.raises(ValueError, match=r"share|sense"):
        LinkTrouble(**fields)


def test_trouble_travels_as_plain_values():
    """What the switch reads is what the runner meant, and an order may come in pieces."""
    trouble = LinkTrouble(delay_seconds=(0.1, 0.2), loss=0.5)
    line = encode_line({"do": "trouble", "trouble": trouble.to_json()})
    buffer = bytearray(line[:10])
    first = cut_lines(buffer)
    buffer += line[10:] + line[:3]
    (order,) = cut_lines(buffer)

    assert first == []
    assert LinkTrouble.from_json(order["trouble"]) == trouble
    assert bytes(buffer) == line[:3]


def test_no_trouble_is_the_same_object_after_a_heal():
    """The quick path of the carriers compares by identity."""
    table = LinkTable(["a", "b"])
    table.obey({"do": "trouble", "source": "a", "target": "b", "trouble": CUT.to_json()})
    table.obey({"do": "heal"})

    assert table.links["a", "b"].trouble is NO_TROUBLE


def test_an_unknown_order_is_refused():
    """A typo in an order is no silence."""
    with pytest.raises(ValueError, match="explode"):
        LinkTable(["a", "b"]).obey({"do": "explode"})


class Recorder:
    """A network that only notes what is asked."""

    def __init__(self) -> None:
        self.cuts: set[tuple[str, str]] = set()

    def trouble(self, source: str, target: str, trouble: LinkTrouble) -> None:
        assert trouble.is_cut
        self.cuts.add((source, target))


def test_a_partition_is_cut_both_ways_or_one_way():
    """Every link between the two groups, none within a group."""
    both, one = Recorder(), Recorder()
    cut(both, ["a"], ["b", "c"])
    cut(one, ["a", "b"], ["b", "c"], both_ways=False)

    assert both.cuts == {("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")}
    assert one.cuts == {("a", "b"), ("a", "c"), ("b", "c")}


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0A05117F:F0AD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1
   1: 0A05117F:F0AD 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 222 1
   2: 0100007F:C350 0A05117F:F0AD 01 00000000:00000000 00:00000000 00000000     0        0 333 1
   3: 0100007F:C351 0A05117F:F0AD 06 00000000:00000000 00:00000000 00000000     0        0 0 1
"""


def test_the_dialing_socket_is_found_in_the_kernels_table():
    """Of the two ends the dialer's; none once nobody owns it any more."""
    listener = ("127.17.5.10", 61613)

    assert find_inode(TABLE, ("127.0.0.1", 50000), listener) == "333"
    assert find_inode(TABLE, ("127.0.0.1", 50001), listener) is None
    assert find_inode(TABLE, ("127.0.0.1", 50002), listener) is None


def test_a_process_without_the_mark_is_on_no_host():
    """This test runs on no host of a network that was never opened."""
    assert host_of(1 << 22, "chaos-none") is None


def test_every_topology_has_a_host_for_each_member_and_a_majority_of_data():
    """Names are distinct, learners and witnesses come besides voters, sites are complete."""
    for topology in CHAOS_TOPOLOGIES.values():
        members = topology.members

        assert len(set(topology.hosts)) == len(members)
        assert sum(member.kind == "voter" for member in members) >= 2
        assert len({bool(member.site) for member in members}) == 1


def test_a_member_is_listed_with_its_kind_and_site():
    """As `holdfast serve --member` takes it."""
    witness = CHAOS_TOPOLOGIES["sites"].members[-1]

    assert witness.listed("10.0.0.1:61616") == "w=10.0.0.1:61616,witness,site=north"


def test_an_unknown_kind_of_network_is_refused():
    """Before anything is opened."""
    with (
        pytest.raises(ValueError, match="carrier pigeons"),
        open_network([], prefer="carrier pigeons"),
    ):
        pass


def test_a_kind_that_was_asked_for_and_cannot_be_is_an_error(monkeypatch: pytest.MonkeyPatch):
    """Who asks for namespaces does not silently get proxies; who asks for none gets the reason."""
    sentence = "no network namespace can be made: not permitted"

    def refuse(*_: object) -> None:
        raise NetworkUnavailableError(sentence)

    seen = []

    class Proxies:
        def __init__(self, names: object, ports: object, seed: object, reason: str) -> None:
            seen.append(reason)

        def close(self) -> None:
            seen.append("closed")

    monkeypatch.setattr("trials.chaos.switch_network.SwitchNetwork", refuse)
    monkeypatch.setattr("trials.chaos.proxy_network.ProxyNetwork", Proxies)
    with pytest.raises(NetworkUnavailableError, match="not permitted"):
        with open_network(["a"], prefer="namespaces"):
            pass
    with open_network(["a"]):
        pass

    assert seen == [sentence, "closed"]
