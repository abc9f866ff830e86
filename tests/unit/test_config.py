"""
The configuration: precedence of its sources, forms of its values, and all mistakes at once.

No test starts a node; environment variables are passed as a dictionary.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.config import Address, MemberConfig, NodeConfig, parse_member, parse_size
from holdfast.errors import ConfigError

THREE = ["a=127.0.0.1:7001", "b=127.0.0.1:7002", "c=127.0.0.1:7003,witness"]


def load(tmp_path: Path, **flags: Any) -> NodeConfig:
    return NodeConfig.load(flags={"data": tmp_path, **flags}, environment={})


def problems_of(tmp_path: Path, **flags: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **flags)
    return caught.value.problems


def test_a_data_directory_is_all_a_single_node_needs(tmp_path: Path) -> None:
    """
    `holdfast serve --data DIR` starts a node on loopback at ActiveMQ's usual ports.
    """
    config = load(tmp_path)
    assert str(config.stomp) == "127.0.0.1:61613"
    assert str(config.admin) == "127.0.0.1:8161"
    assert (config.name, config.peers, config.members, config.copies) == ("holdfast", None, (), 0)


def test_the_data_directory_is_never_guessed() -> None:
    """
    Without --data there is no default that could hide messages in a surprising place.
    """
    with pytest.raises(ConfigError, match="data: missing; give --data, HOLDFAST_DATA"):
        NodeConfig.load(flags={}, environment={})


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    """
    The nearer to the operator's fingers, the stronger: the order is part of the promise.
    """
    file = tmp_path / "holdfast.toml"
    file.write_text('name = "f"\nmemory = "17MiB"\nsite = "f"\n', encoding="utf-8")
    config = NodeConfig.load(
        flags={"data": tmp_path, "name": "flag", "memory": None},
        environment={"HOLDFAST_NAME": "env", "HOLDFAST_MEMORY": "18MiB", "HOLDFAST_SITE": ""},
        file=file,
    )
    assert (config.name, config.memory_bytes, config.site) == ("flag", 18 * 1024 * 1024, "f")


def test_members_read_alike_from_flags_environment_and_file(tmp_path: Path) -> None:
    """
    Three spellings of one cluster give the same members.
    """
    file = tmp_path / "holdfast.toml"
    file.write_text(
        'name = "a"\n'
        '[[members]]\nname = "a"\naddress = "127.0.0.1:7001"\n'
        '[[members]]\nname = "b"\naddress = "127.0.0.1:7002"\n'
        '[[members]]\nname = "c"\naddress = "127.0.0.1:7003"\nkind = "witness"\n',
        encoding="utf-8",
    )
    from_flags = load(tmp_path, name="a", members=THREE).members
    from_file = NodeConfig.load(flags={"data": tmp_path}, environment={}, file=file).members
    from_environment = NodeConfig.load(
        flags={"data": tmp_path, "name": "a"}, environment={"HOLDFAST_MEMBERS": " ".join(THREE)}
    ).members
    assert from_flags == from_file == from_environment


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    """
    Mistakes in the shape of some values do not hide mistakes in the relations of others.
    """
    problems = problems_of(
        tmp_path,
        stomp="nonsense",
        memory="12q",
        log_level="loud",
        copis=2,
        election_seconds_max=0.5,
    )
    assert [problem.split(":")[0] for problem in sorted(problems)] == [
        "copis",
        "election_seconds_max",
        "log_level",
        "memory",
        "stomp",
    ]


def test_an_unknown_key_names_the_nearest_known_one(tmp_path: Path) -> None:
    """
    A typing mistake in a file is told, not silently ignored.
    """
    assert problems_of(tmp_path, copis=2) == ["copis: unknown setting; did you mean copies?"]


def test_a_value_out_of_range_is_told_the_range(tmp_path: Path) -> None:
    """
    The range in the sentence is the one that is checked.
    """
    assert problems_of(tmp_path, copies=0) == ["copies: 0 is out of range; allowed: 1 to 15"]
    assert problems_of(tmp_path, memory="1k") == [
        "memory: 1k is out of range; allowed: 16,777,216 or more"
    ]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"peers": "127.0.0.1:7001"}, "members: missing; with --peers give every member"),
        ({"name": "x", "members": THREE}, r"name: x is not among the members \(a, b, c\)"),
        ({"name": "a", "members": [*THREE, "a=127.0.0.1:9"]}, "the name a is given twice"),
        ({"name": "a", "members": [*THREE, "d=127.0.0.1:7001"]}, "address 127.0.0.1:7001 is given"),
        ({"name": "a", "members": ["a=h:1,witness"]}, "none of them is a voter"),
        ({"name": "a", "members": THREE, "copies": 4}, "copies: 4 is more .* allowed: 1 to 2"),
        ({"copies": 2}, "copies: 2 is more .* allowed: 1 to 1"),
        ({"name": "a", "members": THREE, "sites": 2}, "sites: 2 is more .* allowed: 1 to 1"),
        ({"name": "a", "members": THREE, "sites": 2, "site": "x"}, "no site is given for: b, c"),
        ({"name": "a", "members": ["a=127.0.0.1:1,site=x"], "site": "y"}, "site: y here, but x in"),
        ({"heartbeat_seconds": 0.5}, "election_seconds_min: 1 is less than 5 heartbeats"),
        ({"election_seconds_max": 1.0}, "allowed: 1.2 or more"),
        ({"stomp": "127.0.0.1:5", "admin": "127.0.0.1:5"}, "two of them are bound to 127.0.0.1:5"),
        ({"members": ["a", "b=h:1,boss"], "name": "a"}, "'a' is not NAME=.*'boss' in 'b=h:1,boss'"),
        ({"data": __file__}, "is not a directory"),
        ({"secret_file": "/no/such/file"}, "secret_file: /no/such/file cannot be read"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(
    tmp_path: Path, flags: dict[str, Any], sentence: str
) -> None:
    """
    Each relation between settings has its own sentence.
    """
    with pytest.raises(ConfigError, match=sentence):
        load(tmp_path, **flags)


def test_copies_on_more_sites_than_copies_are_refused(tmp_path: Path) -> None:
    """
    One copy cannot stand on two sites.
    """
    members = ["a=127.0.0.1:1,site=x", "b=127.0.0.1:2,site=y"]
    with pytest.raises(ConfigError, match="copies: 1 copies cannot stand on 2 sites"):
        load(tmp_path, name="a", members=members, copies=1, sites=2)


def test_peers_open_to_other_machines_need_a_secret(tmp_path: Path) -> None:
    """
    A peer link can overwrite a log, so a port that strangers reach is refused without a secret.
    """
    flags = {"name": "a", "members": THREE, "peers": "0.0.0.0:7001"}
    assert problems_of(tmp_path, **flags)[0].startswith("secret_file: missing; peers bound to 0.0")
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef0123\n")
    assert load(tmp_path, **flags, secret_file=secret).secret == b"0123456789abcdef0123"


def test_a_short_secret_is_refused(tmp_path: Path) -> None:
    """
    A secret that can be guessed is none.
    """
    secret = tmp_path / "secret"
    secret.write_bytes(b"short\n")
    assert "holds 5 bytes; allowed: 16 or more" in problems_of(tmp_path, secret_file=secret)[0]


def test_the_secret_is_not_shown(tmp_path: Path) -> None:
    """
    A configuration that is logged does not give the secret away.
    """
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef0123\n")
    assert "0123456789abcdef" not in repr(load(tmp_path, secret_file=secret))


@pytest.mark.parametrize(
    ("content", "sentence"), [("name = ", "is not TOML"), (None, "cannot be read")]
)
def test_a_file_that_cannot_be_used_is_one_of_the_mistakes(
    tmp_path: Path, content: str | None, sentence: str
) -> None:
    """
    A missing or broken file is reported beside the other mistakes.
    """
    file = tmp_path / "holdfast.toml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=sentence) as caught:
        NodeConfig.load(flags={"copies": 0, "data": tmp_path}, environment={}, file=file)
    assert len(caught.value.problems) == 2


def test_copies_that_are_not_given_follow_from_the_present_members(tmp_path: Path) -> None:
    """
    What is named on the command line may be old; the log tells how many nodes with data there are.
    """
    assert load(tmp_path, name="a", members=THREE).copies == 0
    assert load(tmp_path, name="a", members=THREE, copies=2).copies == 2


def test_a_node_listens_for_peers_at_its_own_member_address(tmp_path: Path) -> None:
    """
    Without --peers the address that the others use is the one to listen on.
    """
    assert str(load(tmp_path, name="b", members=THREE).peers) == "127.0.0.1:7002"


def test_the_site_given_here_is_filled_in_for_this_member(tmp_path: Path) -> None:
    """
    --site and the list of members say the same in the end.
    """
    config = load(tmp_path, name="b", members=THREE, site="north")
    assert [member.site for member in config.members] == ["", "north", ""]
    assert load(tmp_path, name="a", members=["a=127.0.0.1:1,site=x"]).site == "x"


def test_a_wildcard_host_is_advertised_as_the_member_is_known(tmp_path: Path) -> None:
    """
    Other machines cannot connect to 0.0.0.0, so they are told the member's own host.
    """
    config = load(tmp_path, name="b", members=THREE, admin="0.0.0.0:8161", stomp="[::1]:1")
    assert config.advertised_admin == "127.0.0.1:8161"
    assert config.advertised_stomp == "[::1]:1"


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("65536", 65_536), ("64k", 65_536), ("256MiB", 2**28), ("1 gb", 2**30), ("7B", 7)],
)
def test_sizes_are_read_in_powers_of_1024(text: str, size: int) -> None:
    """
    Every usual spelling of a size means the same number of bytes.
    """
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5M", "M", "1x", "1kk"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """
    A size is never half understood.
    """
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_a_member_is_read_with_its_options_in_any_order() -> None:
    """
    The text form of `--member` and `cluster add`.
    """
    expected = MemberConfig("c", Address("::1", 7), "learner", "far")
    assert parse_member("c=[::1]:7,learner,site=far") == expected
    assert parse_member("c=[::1]:7, site=far, learner") == expected


@pytest.mark.parametrize(
    "text",
    ["c", "c=h", "=h:1", "c=h:99999", "c=h:1,boss", "c d=h:1", "c=h:1,site=", "c=:1", "c=h:¹"],
)
def test_what_is_no_member_is_refused(text: str) -> None:
    """
    Half of a member is an error, except an empty site, which means none.
    """
    if text == "c=h:1,site=":
        assert parse_member(text).site == ""
        return
    with pytest.raises(ValueError):
        parse_member(text)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.9.9.9", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("db", False)],
)
def test_loopback_is_told_from_reachable(host: str, loopback: bool) -> None:
    """
    A name that is not known to be loopback counts as reachable from outside.
    """
    assert Address(host, 1).is_loopback is loopback


def test_an_address_is_written_as_it_is_read() -> None:
    """
    IPv6 hosts keep their brackets.
    """
    assert [str(Address.parse(text)) for text in ("[::1]:1", "h:2")] == ["[::1]:1", "h:2"]


def test_members_that_are_not_a_list_are_refused(tmp_path: Path) -> None:
    """
    `members = 3` in a file is a mistake like any other.
    """
    assert problems_of(tmp_path, members=3) == ["members: 3 is not a list of members"]
    assert "unknown key 'adress'" in problems_of(tmp_path, members=[{"adress": "h:1"}])[0]
    table = {"name": "a", "address": "h:1", "kind": "boss"}
    assert "kind 'boss' of member 'a'" in problems_of(tmp_path, members=[table])[0]


def test_more_members_than_supported_are_refused(tmp_path: Path) -> None:
    """
    A cluster has a largest size, as everything has.
    """
    members = [f"m{i}=127.0.0.1:{7000 + i}" for i in range(16)]
    assert problems_of(tmp_path, name="m0", members=members) == [
        "members: 16 members; allowed: at most 15"
    ]


def test_names_of_the_admin_port_are_hosts_without_ports(tmp_path: Path) -> None:
    """
    From a flag or the environment as one text, from TOML as a list; a port would never match.
    """
    flags = {"data": str(tmp_path)}
    read = NodeConfig.load(flags=flags | {"admin_names": "Proxy.Example., b"}, environment={})
    assert read.admin_names == ("proxy.example", "b")
    file = tmp_path / "node.toml"
    file.write_text('admin_names = ["a"]\nconnections = 20\n')
    read = NodeConfig.load(flags=flags, environment={}, file=file)
    assert (read.admin_names, read.connections, read.admin_connections) == (("a",), 20, 64)
    for wrong in ("a:8161", "http://a", 7, ["a b"]):
        with pytest.raises(ConfigError, match=r"admin_names: .*host"):
            NodeConfig.load(flags=flags | {"admin_names": wrong}, environment={})


def test_strictness_may_stand_in_a_table_of_its_own(tmp_path: Path) -> None:
    """
    `[stomp]` with `strict` and `address` is another way to write `stomp_strict` and `stomp`.
    """
    file = tmp_path / "holdfast.toml"
    file.write_text('name = "f"\n[stomp]\naddress = "127.0.0.1:7"\nstrict = true\n', "utf-8")
    config = NodeConfig.load(flags={"data": tmp_path}, environment={}, file=file)
    assert (str(config.stomp), config.stomp_strict, config.name) == ("127.0.0.1:7", True, "f")
    variables = {"HOLDFAST_STOMP_STRICT": "false"}
    assert not NodeConfig.load(
        flags={"data": tmp_path}, environment=variables, file=file
    ).stomp_strict
    assert not load(tmp_path).stomp_strict
    file.write_text("[stomp]\nstrikt = true\n", "utf-8")
    with pytest.raises(ConfigError, match="stomp_strikt: unknown setting; did you mean stomp_str"):
        NodeConfig.load(flags={"data": tmp_path}, environment={}, file=file)
