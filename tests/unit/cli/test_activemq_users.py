"""Users, groups and rights as ActiveMQ's files have them."""

from __future__ import annotations

import pytest

from holdfast.cli.activemq_users import (
    DEPTH_MAX,
    FILE_BYTES_MAX,
    Found,
    read_activemq_xml,
    read_jaas,
)
from holdfast.cli.java_properties import read_properties
from holdfast.errors import ConfigError
from holdfast.security.grants import Right

XML = b"""<beans xmlns="http://www.springframework.org/schema/beans">
  <broker xmlns="http://activemq.apache.org/schema/core">
    <plugins>
      <simpleAuthenticationPlugin anonymousAccessAllowed="true">
        <users>
          <authenticationUser username="system" password="${sys.password}" groups="users, admins"/>
          <authenticationUser username="user" password="ENC(3fk)" groups="users"/>
          <authenticationUser username="${who}" password="x" groups=""/>
          <authenticationUser username="gone" password="${unknown}" groups="guests"/>
        </users>
      </simpleAuthenticationPlugin>
      <authorizationPlugin><map><authorizationMap><authorizationEntries>
        <authorizationEntry queue="&gt;" read="admins" write="admins" admin="admins"/>
        <authorizationEntry queue="USERS.&gt;,A" topic="B" read="users,*" write=""/>
        <authorizationEntry read="users"/>
        <tempDestinationAuthorizationEntry read="t" write="t" admin="t"/>
      </authorizationEntries></authorizationMap></map></authorizationPlugin>
      <jaasAuthenticationPlugin configuration="activemq"/>
    </plugins>
  </broker>
  <authenticationUser username="not-ours"/>
</beans>"""


def read(data: bytes, properties: bytes = b"") -> Found:
    return read_activemq_xml("activemq.xml", data, read_properties(properties))


def test_users_and_entries_are_read_with_their_lines() -> None:
    """Placeholders are filled from the properties; what is of another namespace is not ours."""
    found = read(XML, b"sys.password=manager\nwho=filled")
    system, user, filled, gone = found.users
    assert (system.name, system.password, system.groups) == (
        "system",
        "manager",
        ("users", "admins"),
    )
    assert (str(system.place), user.password, filled.name) == ("activemq.xml:6", "", "filled")
    assert gone.groups == ("guests",)
    everything, some = found.entries
    assert everything.patterns == ("queue://>",)
    assert everything.groups == dict.fromkeys(Right, ("admins",))
    assert some.patterns == ("queue://USERS.>", "queue://A", "topic://B")
    assert some.groups[Right.READ] == ("users", "*")
    assert some.groups[Right.WRITE] == some.groups[Right.ADMIN] == ()


def test_what_cannot_be_carried_over_is_named_with_its_line() -> None:
    """Nothing is passed over in silence, and no password is part of what is said."""
    found = read(XML, b"sys.password=manager")
    told = [f"{place}: {why}" for place, why in found.left_out]
    assert [it.partition(": ")[0] for it in told] == [
        f"activemq.xml:{line}" for line in (4, 7, 8, 9, 15, 16, 18)
    ]
    assert "nobody comes in without a login" in told[0]
    assert "user user: the password is encrypted" in told[1]
    assert "--properties" in told[2]
    assert "neither a queue nor a topic" in told[4]
    assert "--jaas-users" in told[6]
    assert "3fk" not in "".join(told)
    assert "manager" not in repr(found)


@pytest.mark.parametrize(
    "data",
    [
        b'<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        b'<!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><lolz>&b;</lolz>',
        b"<a>",
        b"<a>&unknown;</a>",
        b"",
        b"no xml",
        b'<?xml version="1.0" encoding="nothing"?><a/>',
        b'<?xml version="1.0" encoding="shift_jis"?><a/>',
        b"\xff\xfe\xff",
        b"<a>" * (DEPTH_MAX + 1),
        b" " * (FILE_BYTES_MAX + 1),
    ],
)
def test_what_is_no_such_file_is_refused(data: bytes) -> None:
    """No entity is made larger, no other file is read."""
    with pytest.raises(ConfigError, match=r"^activemq\.xml"):
        read(data)


def test_jaas_files_are_read_together() -> None:
    """A group names its users there; one who is not there is named."""
    found = read_jaas(
        ("users.properties", b"# who\nann=one\nben=ENC(x)\n"),
        ("groups.properties", b"admins=ann\nusers=ann, ben,cas\n"),
    )
    ann, ben = found.users
    assert (ann.name, ann.password, ann.groups) == ("ann", "one", ("admins", "users"))
    assert (str(ben.place), ben.password, ben.groups) == ("users.properties:3", "", ("users",))
    told = [f"{place}: {why}" for place, why in found.left_out]
    assert told[0] == "groups.properties:2: group users: there is no user cas"
    assert told[1].startswith("users.properties:3: user ben: the password is encrypted")
    assert read_jaas(("u", b"ann=one"), None).users[0].groups == ()
