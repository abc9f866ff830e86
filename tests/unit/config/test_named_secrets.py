"""Which files of a configuration hold a secret: all of them, and itself where one stands in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.node import NodeConfig, secrets_in
from holdfast.transport.certificates import make_node, open_authority

SECRETS = """
secret_file = "{0}/cluster.secret"
store = ["postgresql://me@db/log?password_file=/etc/db&sslkey=/etc/db.key", "{1}"]
elector = "zookeeper://me@z1/holdfast/log?password_file=/etc/elector"
[tls.clients]
certificate = "{0}/a.pem"
[tls.peers]
certificate = "{0}/a.pem"
key = "{0}/a.key"
[ldap.staff]
url = "ldaps://ldap"
bind_dn = "cn=holdfast"
bind_password_file = "/etc/ldap"
people_base = "ou=people"
group_base = "ou=groups"
"""


@pytest.mark.parametrize(
    ("other", "is_secret"),
    [("mysql://me@db2/log?ssl_key=/etc/db2.key", False), ("mysql://me:pw@db1,db2/log", True)],
)
def test_all_that_a_file_names_is_looked_at(tmp_path: Path, other: str, is_secret: bool) -> None:
    """By `config check` and by a node that starts, in the same order."""
    file = tmp_path / "holdfast.toml"
    (tmp_path / "cluster.secret").write_text("0123456789abcdef")
    file.write_text(SECRETS.format(tmp_path, other))
    make_node(open_authority(tmp_path)[0], tmp_path / "a.pem", "a", [], 9)
    (tmp_path / "a.key").write_bytes((tmp_path / "a.pem").read_bytes())
    wanted = [tmp_path / "cluster.secret", Path("/etc/db"), Path("/etc/db.key")]
    found = secrets_in(file)
    own = [file] if is_secret else []
    more = [] if is_secret else [Path("/etc/db2.key")]
    rest = [Path("/etc/elector"), tmp_path / "a.pem", tmp_path / "a.key", Path("/etc/ldap")]
    assert found == [*own, *wanted, *more, *rest]
    node = NodeConfig.load(flags={"data": str(tmp_path), "name": "a"}, environment={}, file=file)
    assert node.secrets(file) == found
    assert node.secrets(None) == found[len(own) :]


def test_a_password_that_stands_elsewhere_makes_no_secret_of_the_file(tmp_path: Path) -> None:
    """By a flag or a variable."""
    file = tmp_path / "holdfast.toml"
    file.write_text('log_level = "info"\n')
    node = NodeConfig.load(
        flags={"data": str(tmp_path), "store": ["mysql://me:pw@db/log"]},
        environment={"HOLDFAST_ELECTOR": "zookeeper://me:pw@z/holdfast/log"},
        file=file,
    )
    assert node.secrets(file) == []
