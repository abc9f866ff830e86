"""People of a real directory, OpenLDAP's: their passwords, their groups, and no trick (S17); and a
node that asks it, and an issuer of tokens on loopback, who its clients are."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any, ClassVar

import jwt
import pytest
import stomp
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from holdfast.authorities.directory import Directory
from holdfast.authorities.options import LdapOptions
from holdfast.errors import AuthenticationError
from holdfast.security.authority import Vouched
from holdfast.testing.free_ports import free_ports
from holdfast.testing.local_cluster import LocalNode
from holdfast.transport.certificates import make_node, open_authority
from trials.clients.stomp_socket import StompSocket
from trials.directories import slapd
from trials.directories.slapd import SlapdServer, missing_slapd

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlapdServer]:
    """A server with some people in two groups."""
    if missing := missing_slapd():
        pytest.fail(f"needs a server: {missing}")
    made = SlapdServer()
    authority, _ = open_authority(made.folder)
    made.authority, made.certificate = (str(made.folder / it) for it in ("ca.pem", "node.pem"))
    make_node(authority, Path(made.certificate), "slapd", [], 2)
    for each in (made.folder, Path(made.certificate)):
        made.own(each)
    kept = tmp_path_factory.mktemp("authority")
    shutil.copy(made.authority, kept / "ca.pem")
    made.authority_kept = kept / "ca.pem"
    with made:
        made.create("")
        anna = made.add_person("anna", "anna's own")
        bert = made.add_person("bert", "bert's own")
        made.add_person("c*(x)", "odd")
        made.set_group("orders", [anna, bert])
        made.set_group("viewer", [anna])
        yield made


@pytest.fixture
def options(server: SlapdServer, tmp_path: Path) -> LdapOptions:
    """As an operator would write them for it."""
    file = tmp_path / "password"
    file.write_text(f"{slapd.BROKER_PASSWORD}\n")
    return LdapOptions(
        name="people",
        url=server.url(),
        bind_dn=slapd.BROKER,
        bind_password_file=file,
        people_base=slapd.PEOPLE,
        group_base=slapd.GROUPS,
    )


def test_people_log_in_with_their_own_password_and_their_groups_are_roles(
    options: LdapOptions,
) -> None:
    """Right, wrong, somebody else's, and nobody."""
    directory = Directory(options)
    assert directory.look("anna", "anna's own") == Vouched(
        "anna", frozenset({"orders", "viewer"}), 300
    )
    assert directory.look("bert", "bert's own") == Vouched("bert", frozenset({"orders"}), 300)
    for name, secret in (("anna", "bert's own"), ("anna", "x"), ("carl", "carl's own")):
        assert directory.look(name, secret) is None


def test_an_empty_password_is_nobodys(options: LdapOptions) -> None:
    """A directory takes a bind without a password for one as nobody, and says that it is right."""
    directory = Directory(options)
    assert directory.look("anna", "") is None
    assert not directory.recognises("anna", "", is_known=False)
    assert directory.look("anna", "\0") is None


@pytest.mark.parametrize(
    "name",
    [
        "*",
        "ann*",
        "anna)(uid=*",
        "*)(objectClass=*",
        "anna\0",
        "a" * 300,
        "c*(x",
        "\udc80",
        "a\\2a",
    ],
)
def test_a_name_is_a_name_and_no_filter(options: LdapOptions, name: str) -> None:
    """Whatever is written into it, and with the password of somebody who is there."""
    assert Directory(options).look(name, "anna's own") is None


def test_a_name_with_letters_of_filters_is_found(options: LdapOptions) -> None:
    """What is escaped means itself."""
    assert Directory(options).look("c*(x)", "odd") == Vouched("c*(x)", frozenset(), 300)


def test_a_name_that_several_have_is_nobodys(options: LdapOptions) -> None:
    """It would be chance who of them it is."""
    both = replace(options, people_filter="(|(uid={name})(uid=bert))")
    assert Directory(both).look("anna", "anna's own") is None
    assert Directory(both).look("bert", "bert's own") is not None


def test_somebody_is_called_as_his_entry_says(options: LdapOptions) -> None:
    """A directory finds ANNA and `anna` alike: there is one of her."""
    for written in ("ANNA", "Anna"):
        found = Directory(options).look(written, "anna's own")
        assert found is not None
        assert found.name == "anna"
    assert Directory(options).look("anna ", "anna's own") is None


def test_groups_are_read_again_without_the_password(
    options: LdapOptions, server: SlapdServer
) -> None:
    """Who is connected has the roles that he has by now, and none when he is gone."""
    directory = Directory(options)
    dora = server.add_person("dora", "dora's own")
    assert directory.again("dora", "dora") == Vouched("dora", frozenset(), 300)
    server.set_group("night", [dora])
    assert directory.again("dora", "dora") == Vouched("dora", frozenset({"night"}), 300)
    server.remove_person(dora)
    assert directory.again("dora", "dora") is None


def test_a_directory_is_spoken_to_by_tls_and_checked(
    options: LdapOptions, server: SlapdServer
) -> None:
    """By its own port or begun on the plain one; by whom nobody vouches for nobody logs in."""
    tls = replace(options, url=server.tls_url, ca=server.authority_kept)
    assert Directory(tls).look("anna", "anna's own") is not None
    assert Directory(replace(options, start_tls=True, ca=tls.ca)).look("anna", "anna's own")
    for stranger in (replace(tls, ca=None), replace(options, start_tls=True)):
        with pytest.raises(AuthenticationError, match=r"ldap\.people does not answer"):
            Directory(stranger).look("anna", "anna's own")


def test_who_cannot_be_asked_is_said_to_be_away(options: LdapOptions, server: SlapdServer) -> None:
    """Nobody's password is called wrong for it: no server, one that hangs, a wrong own password."""
    (nobody,) = free_ports(1)
    away = replace(options, url=f"ldap://127.0.0.1:{nobody}")
    with pytest.raises(AuthenticationError, match=r"ldap\.people does not answer"):
        Directory(away).look("anna", "anna's own")
    server.pause()
    try:
        with pytest.raises(AuthenticationError, match=r"ldap\.people does not answer"):
            Directory(replace(options, timeout_seconds=1)).look("anna", "anna's own")
    finally:
        server.resume()
    options.bind_password_file.write_text("wrong")
    with pytest.raises(AuthenticationError, match="does not let the broker itself in"):
        Directory(options).look("anna", "anna's own")
    options.bind_password_file.unlink()
    with pytest.raises(AuthenticationError, match="cannot read its own password"):
        Directory(options).look("anna", "anna's own")


class Issuing(BaseHTTPRequestHandler):
    """An issuer's keys by HTTP."""

    keys: ClassVar[dict[str, ec.EllipticCurvePrivateKey]] = {}

    def answer(self) -> None:
        """Give those that there are now."""
        listed = []
        for name, key in self.keys.items():
            listed.append({**json.loads(ECAlgorithm.to_jwk(key.public_key())), "kid": name})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"keys": listed}).encode())

    do_GET = answer  # noqa: N815 - a name of Python's library

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def issuer() -> Iterator[str]:
    """An issuer with one key."""
    Issuing.keys = {"one": ec.generate_private_key(ec.SECP256R1())}
    server = HTTPServer(("127.0.0.1", 0), Issuing)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/keys.json"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def signed(key_id: str, name: str = "anna", **more: Any) -> str:
    """A token of the issuer's."""
    said = {
        "iss": "https://login.example/",
        "aud": "holdfast",
        "sub": name,
        "exp": time.time() + 60,
    }
    key = Issuing.keys.get(key_id) or ec.generate_private_key(ec.SECP256R1())
    return jwt.encode({**said, **more}, key, "ES256", headers={"kid": key_id})


def told(node: LocalNode, name: str, passcode: str) -> str:
    """Log in as stomp.py does: what the node says, `in` if it lets one in."""
    connection = stomp.Connection([(node.host, node.stomp_port)], reconnect_attempts_max=1)
    words: list[str] = []

    class Heard(stomp.ConnectionListener):
        def on_error(self, frame: Any) -> None:
            """Keep what is said."""
            words.append(f"{frame.headers.get('message', '')} {frame.body}")

    connection.set_listener("heard", Heard())
    try:
        connection.connect(name, passcode, wait=True)
    except stomp.exception.StompException:
        return words[0] if words else "gone"
    connection.disconnect()
    return "in"


def test_a_node_lets_in_whom_others_vouch_for(
    options: LdapOptions, server: SlapdServer, issuer: str, tmp_path: Path, start_cluster: Any
) -> None:
    """By tokens and by the directory; nobody else, and nothing that was shown is in its log."""
    file = tmp_path / "h.toml"
    file.write_text(
        f"""
        [jwt.company]
        issuer = "https://login.example/"
        audience = "holdfast"
        keys = "{issuer}"
        [ldap.people]
        url = "{server.url()}"
        bind_dn = "{options.bind_dn}"
        bind_password_file = "{options.bind_password_file}"
        people_base = "{options.people_base}"
        group_base = "{options.group_base}"
        """
    )
    node = start_cluster("single", "--config", str(file)).leader()
    good = signed("one")
    assert told(node, "", good) == told(node, "anna", good) == "in"
    assert told(node, "anna", "anna's own") == "in"
    for name, passcode in (
        ("anna", "bert's own"),
        ("", signed("one", aud="others")),
        ("", signed("none of its")),
        ("bert", good),
    ):
        assert "login or passcode is wrong" in told(node, name, passcode)
    assert "a login is needed" in told(node, "", "")
    log = node.log_path.read_text()
    for secret in ("anna's own", "bert's own", slapd.BROKER_PASSWORD, good):
        assert secret not in log


def test_a_directory_that_drips_is_given_up(options: LdapOptions) -> None:
    """A byte now and then is in time for each read, and no answer."""
    with socket.create_server(("127.0.0.1", 0)) as there:
        is_over = Event()

        def drip() -> None:
            connection, _ = there.accept()
            with connection:
                while not is_over.wait(0.2):
                    try:
                        connection.sendall(b"\x30")
                    except OSError:
                        return

        dripping = Thread(target=drip)
        dripping.start()
        port = there.getsockname()[1]
        dripped = replace(options, url=f"ldap://127.0.0.1:{port}", timeout_seconds=1)
        began = time.monotonic()
        with pytest.raises(AuthenticationError, match=r"ldap\.people does not answer"):
            Directory(dripped).look("anna", "anna's own")
        is_over.set()
        dripping.join()
    assert time.monotonic() - began < 20


def test_who_leaves_a_group_is_cut_off_while_it_is_connected(
    options: LdapOptions, server: SlapdServer, tmp_path: Path, start_cluster: Any
) -> None:
    """Nothing in the log changes, and nobody logs in: the directory is asked again."""
    gina = server.add_person("gina", "gina's own")
    server.set_group("readers", [gina])
    file = tmp_path / "h.toml"
    file.write_text(
        f"""
        [ldap.people]
        url = "{server.url()}"
        bind_dn = "{options.bind_dn}"
        bind_password_file = "{options.bind_password_file}"
        people_base = "{options.people_base}"
        group_base = "{options.group_base}"
        again_seconds = 10
        """
    )
    node = start_cluster("single", "--config", str(file)).leader()
    command = [sys.executable, "-m", "holdfast", "grant"]
    granted = subprocess.run(
        [*command, "readers", "read,admin", "queue://Q", "--admin", node.admin],
        cwd=node.data,
        capture_output=True,
        text=True,
        check=False,
    )
    assert granted.returncode == 0, granted.stderr
    with StompSocket(node.stomp_port, timeout_seconds=40) as client:
        client.connect(login="gina", passcode="gina's own")
        client.send("SUBSCRIBE", {"destination": "/queue/Q", "id": "1", "receipt": "r"})
        frame = client.read()
        assert frame.command == "RECEIPT", frame
        server.set_group("readers", [])
        frame = client.read()
        assert frame.command == "ERROR"
