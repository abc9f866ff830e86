"""Who vouches for people, as a file says it: each mistake with its line, and nothing in clear."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.authorities.options import JwtOptions, LdapOptions
from holdfast.config.node import NodeConfig, mistakes_in

JWT = """
[jwt.company]
issuer = "https://login.example.org/"
audience = "holdfast"
keys = "https://login.example.org/keys.json"
"""
LDAP = """
[ldap.people]
url = "ldaps://directory.example.org"
bind_dn = "cn=broker,dc=example,dc=org"
bind_password_file = "/etc/holdfast/directory.password"
people_base = "ou=people,dc=example,dc=org"
group_base = "ou=groups,dc=example,dc=org"
"""


def mistakes(folder: Path, text: str) -> list[str]:
    """What is told of a file."""
    file = folder / "h.toml"
    file.write_text(text)
    return mistakes_in(file)


def test_scram_is_not_wanted_beside_a_directory(tmp_path: Path) -> None:
    """Whose users have no keys, so it could never be offered; issuers' tokens are no passwords."""
    (told,) = mistakes(tmp_path, f"scram = true\n{LDAP}")
    assert "scram: users of a directory ([ldap.…]) show passwords that only the directory" in told
    assert mistakes(tmp_path, f"scram = true\n{JWT}") == []


def test_issuers_and_a_directory_are_read(tmp_path: Path) -> None:
    """With what was left open as it is by default."""
    file = tmp_path / "h.toml"
    more = 'algorithms = ["EdDSA"]\nkeys_seconds = 600\nroles_claim = "realm_access.roles"\n'
    file.write_text(JWT + more + LDAP)
    found = NodeConfig.load(flags={}, environment={}, file=file, is_data_needed=False).authorities
    assert found.issuers == (
        JwtOptions(
            name="company",
            issuer="https://login.example.org/",
            audience="holdfast",
            keys="https://login.example.org/keys.json",
            algorithms=("EdDSA",),
            roles_claim="realm_access.roles",
            keys_seconds=600,
        ),
    )
    (people,) = found.directories
    assert people == LdapOptions(
        name="people",
        url="ldaps://directory.example.org",
        bind_dn="cn=broker,dc=example,dc=org",
        bind_password_file=Path("/etc/holdfast/directory.password"),
        people_base="ou=people,dc=example,dc=org",
        group_base="ou=groups,dc=example,dc=org",
    )
    assert (people.people_filter, people.group_filter) == ("(uid={name})", "(member={dn})")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[jwt.x]", "jwt.x: issuer is missing (h.toml line 1)"),
        (
            JWT + 'secret = "s"',
            "jwt.company.secret: unknown key; such a table has issuer, audience",
        ),
        (JWT + 'algorithms = ["HS256"]', "whoever can check by a secret can sign by it"),
        (JWT + 'algorithms = ["none"]', "jwt.company.algorithms: 'none' is not allowed"),
        (JWT + "algorithms = []", "'[]' is no list of some of 'RS256'"),
        (JWT + "keys_seconds = 5", "'5' is not allowed: whole seconds from 60 to 86,400"),
        (JWT + "keys_seconds = true", "'True' is not allowed: whole seconds"),
        (JWT + 'name_claim = ""', "jwt.company.name_claim: '' is no text of 1 to 1,000 letters"),
        (JWT + 'name_claim = "a\\u0007"', "has letters that cannot be seen"),
        (JWT + JWT.replace("company", "again"), "jwt.again.issuer: another table has the same"),
        (JWT.replace("https://login.example.org/keys", "http://x/k"), "an https URL, or a file of"),
        (JWT.replace("https://login.example.org/keys", "https://:x/k"), "is no URL"),
        (JWT.replace("https://login.example.org/keys.json", "k") + 'ca = "c"', "ca is of use with"),
        (
            LDAP.replace("ldaps", "ldap"),
            "passwords would go over the network in clear: write ldaps",
        ),
        (LDAP + "start_tls = true", "start_tls is of use with ldap:// only"),
        (LDAP + 'start_tls = "yes"', "'yes' is neither true nor false"),
        (LDAP.replace("ldaps:", "http:"), "is no ldaps://HOST[:PORT] or ldap://HOST[:PORT]"),
        (LDAP.replace('example.org"\nbind', 'example.org/o=x"\nbind'), "write scheme, host and"),
        (LDAP.replace("ldaps://directory.example.org", "ldap://[::1]") + 'ca = "c"', "by TLS only"),
        (LDAP + 'people_filter = "uid={name}"', "is no filter in parentheses with {name} in it"),
        (LDAP + 'people_filter = "(uid={0})"', "is no filter in parentheses"),
        (LDAP + 'group_filter = "(uid={name.x})"', "is no filter in parentheses"),
        (LDAP + 'group_filter = "(uid={"', "with {dn} and {name} in it"),
        (LDAP + "timeout_seconds = 0", "whole seconds from 1 to 60"),
        (LDAP + LDAP.replace("people]", "more]"), "ldap: there is more than one directory"),
        ("ldap = 3", "ldap: is a table: write [ldap.NAME] and its keys below it (h.toml line 1)"),
    ],
)
def test_each_mistake_says_what_and_where(tmp_path: Path, text: str, told: str) -> None:
    """In one sentence."""
    (found,) = mistakes(tmp_path, text)[:1]
    assert told in found
    assert "(h.toml line " in found


def test_plain_lines_are_for_this_machine_or_begin_tls(tmp_path: Path) -> None:
    """Neither is a mistake."""
    here = LDAP.replace("ldaps://directory.example.org", "ldap://127.0.0.1:10389")
    assert mistakes(tmp_path, here) == []
    assert mistakes(tmp_path, LDAP.replace("ldaps:", "ldap:") + "start_tls = true") == []
    assert mistakes(tmp_path, JWT.replace("https://login.example.org/keys", "http://[::1]/k")) == []


@pytest.mark.parametrize("text", [JWT, LDAP])
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """With the command that installs it."""
    monkeypatch.setattr("holdfast.config.authorities.find_spec", lambda _name: None)
    (found,) = mistakes(tmp_path, text)
    assert "pip install 'holdfast[" in found
