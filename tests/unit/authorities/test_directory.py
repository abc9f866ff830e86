"""What is asked of a directory, and what comes of its answers; the real one is in integration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ldap3
import pytest
from ldap3.core.exceptions import LDAPException, LDAPSocketOpenError

from holdfast.authorities.deadline import Deadline
from holdfast.authorities.directory import REST_SECONDS, Directory
from holdfast.authorities.options import LdapOptions
from holdfast.errors import AuthenticationError
from holdfast.security.authority import Vouched

PEOPLE, GROUPS, BROKER = "ou=people,o=x", "ou=groups,o=x", "cn=broker,o=x"
ANNA = f"uid=anna,{PEOPLE}"


@pytest.fixture
def options(tmp_path: Path) -> LdapOptions:
    """As an operator would write them."""
    file = tmp_path / "password"
    file.write_text("own\n")
    return LdapOptions(
        name="people",
        url="ldaps://directory.example",
        bind_dn=BROKER,
        bind_password_file=file,
        people_base=PEOPLE,
        group_base=GROUPS,
    )


class Asked:
    """A directory in memory; what connections were bound as is noted."""

    def __init__(self) -> None:
        self.bound: list[tuple[str, str]] = []
        self.server = ldap3.Server("mock", get_info=ldap3.NONE)
        self.entries = [
            (BROKER, {"userPassword": "own"}),
            (ANNA, {"uid": "anna", "userPassword": "hers", "objectClass": "person"}),
            (f"cn=orders,{GROUPS}", {"cn": ["orders", "bills\n"], "member": [ANNA]}),
        ]

    def connect(self, entry: str, password: str, _deadline: Deadline) -> Any:
        """Give a connection that is bound."""
        self.bound.append((entry, password))
        made = ldap3.Connection(self.server, entry, password, client_strategy=ldap3.MOCK_SYNC)
        for name, values in self.entries:
            made.strategy.add_entry(name, values)
        if not made.bind():
            raise OSError(f"bind answered {made.result['result']}")
        return made


def test_the_broker_looks_somebody_up_and_a_connection_of_his_own_is_tried(
    options: LdapOptions,
) -> None:
    """In that order, and what is no word of a line is no role."""
    asked = Asked()
    found = Directory(options, connect=asked.connect).look("anna", "hers")
    assert found == Vouched("anna", frozenset({"orders"}), 300.0)
    assert asked.bound == [(BROKER, "own"), (ANNA, "hers")]


def test_of_somebody_unknown_a_password_is_tried_as_well(options: LdapOptions) -> None:
    """So nobody can tell by the time who is in the directory."""
    asked = Asked()
    with pytest.raises(AuthenticationError, match="does not answer"):  # The mock knows no 49 here.
        Directory(options, connect=asked.connect).look("carl", "his")
    (_, (entry, password)) = asked.bound
    assert entry.endswith(f",{PEOPLE}")
    assert entry not in {ANNA, f"uid=carl,{PEOPLE}"}
    assert password == "his"


def test_what_cannot_be_a_name_or_password_is_asked_of_nobody(options: LdapOptions) -> None:
    """Not to begin with."""
    asked = Asked()
    directory = Directory(options, connect=asked.connect)
    for name, secret in (
        ("", "x"),
        ("anna", ""),
        ("anna", "x" * 1_025),
        ("a\n", "x"),
        ("a" * 257, "x"),
    ):
        assert directory.look(name, secret) is None
    assert directory.again("a\0", "a\0") is None
    assert not asked.bound


def test_who_has_gone_is_not_vouched_for_again(options: LdapOptions) -> None:
    """Who is there is, with the groups of now and without a password."""
    asked = Asked()
    directory = Directory(options, connect=asked.connect)
    assert directory.again("anna", "anna") == Vouched("anna", frozenset({"orders"}), 300.0)
    assert directory.again("carl", "carl") is None
    assert asked.bound == [(BROKER, "own")] * 2


def test_who_came_by_another_name_than_his_own_is_asked_about_by_that(options: LdapOptions) -> None:
    """By his mail, say: his own name is none by the filter. Groups list him by his own, always."""
    asked = Asked()
    asked.entries[1][1]["mail"] = "anna@example.org"
    asked.entries[2][1]["memberUid"] = "anna"
    by_mail = replace(options, people_filter="(mail={name})", group_filter="(memberUid={name})")
    directory = Directory(by_mail, connect=asked.connect)
    expected = Vouched("anna", frozenset({"orders"}), 300.0)
    assert directory.look("anna@example.org", "hers") == expected
    assert directory.again("anna", "anna@example.org") == expected
    assert directory.again("carl", "anna@example.org") is None, "it was another's before"


def test_a_password_of_its_own_that_cannot_be_read_is_named(options: LdapOptions) -> None:
    """By what has to be mended, and never by what stands in it."""
    broken = replace(options, bind_password_file=options.bind_password_file.parent)
    with pytest.raises(AuthenticationError, match="cannot read its own password"):
        Directory(broken, connect=Asked().connect).look("anna", "hers")


def test_a_password_of_its_own_is_a_short_file(options: LdapOptions) -> None:
    """No more of another file is read than a password may have: it may be of any size."""
    options.bind_password_file.write_bytes(b"p" * 1_027)
    endless = replace(options, bind_password_file=Path("/dev/zero"))
    for broken in (options, endless):
        with pytest.raises(AuthenticationError, match="a file of at most 1,026 bytes"):
            Directory(broken, connect=Asked().connect).look("anna", "hers")


def test_a_directory_that_was_silent_is_not_waited_for_by_everybody(options: LdapOptions) -> None:
    """Who comes in the next moment is told at once; a strange answer keeps nobody else away."""
    now, asked, failures = 100.0, Asked(), [LDAPSocketOpenError(), LDAPException()]

    def connect(entry: str, password: str, deadline: Deadline) -> Any:
        if failures:
            raise failures.pop(0)
        return asked.connect(entry, password, deadline)

    directory = Directory(options, connect=connect, clock=lambda: now)
    for _ in range(3):
        with pytest.raises(AuthenticationError, match="does not answer, try again in a moment"):
            directory.look("anna", "hers")
    assert len(failures) == 1
    now += REST_SECONDS
    with pytest.raises(AuthenticationError, match="does not answer"):
        directory.look("anna", "hers")
    assert directory.look("anna", "hers") is not None
