"""Where an elector is: what an operator writes, what is refused, and that no password is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.electors.url import PASSWORD_VARIABLE, parse_elector_url, read_elector
from holdfast.environment.remote_server import Host

SECRET = "s3cr3t"


def test_hosts_a_path_and_a_user_are_read() -> None:
    """In the order in which they are tried; a port may be left out."""
    url = parse_elector_url("zookeeper://hf:p%40ss@z1,z2:2182,[::1]:9/holdfast/orders/")

    assert ("zookeeper", "/holdfast/orders") == (url.kind, url.path)
    assert (Host("z1", 2181), Host("z2", 2182), Host("::1", 9)) == url.hosts
    assert ("hf", "p@ss") == (url.user, url.secret({}))
    assert "zookeeper://hf@z1:2181,z2:2182,[::1]:9/holdfast/orders" == str(url)
    assert (Host("e", 2379),) == parse_elector_url("etcd://e/x").hosts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no address of an elector"),
        (f"consul://h:{SECRET}@h/x", "no address of an elector"),
        ("etcd://h" + "x" * 3_000 + "/x", "no address of an elector"),
        ("etcd://h", "the path is missing"),
        ("etcd://h/", "the path is missing"),
        ("etcd://h/a//b", "'' in its path is no name"),
        ("etcd://h/a/../b", "'..' in its path is no name"),
        ("etcd://h/a%20b", "is no name"),
        ("etcd:///x", "host 1 is none"),
        ("etcd://h,,i/x", "host 2 is none"),
        ("etcd://h:99999/x", "host 1 is none"),
        (f"etcd://hf:{SECRET}/x", "host 1 is none"),
        ("etcd://" + ",".join("abcdefghij") + "/x", "10 hosts; allowed: 9 or fewer"),
        (f"etcd://:{SECRET}@h/x", "the user is missing"),
        ("etcd://h/x?tls=1", "?tls= is not known"),
        ("etcd://h/x?password_file=/f", "no user"),
        (f"etcd://u:{SECRET}@h/x?password_file=/f", "keep one"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(text: str, said: str) -> None:
    """Which repeats nothing that may be a password."""
    with pytest.raises(ValueError) as caught:
        parse_elector_url(text)

    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_password_is_in_no_text_of_it() -> None:
    """Neither where it is shown to people nor where a program shows its values."""
    url = parse_elector_url(f"etcd://hf:{SECRET}@h/x")

    assert SECRET not in f"{url} {url!r}"
    assert SECRET == url.secret({})


def test_a_password_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    """Without the newline that editors add; of nobody's without a user."""
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    assert SECRET == parse_elector_url(f"etcd://u@h/x?password_file={file}").secret({})
    variables = {PASSWORD_VARIABLE: SECRET}
    assert SECRET == parse_elector_url("etcd://u@h/x").secret(variables)
    assert "" == parse_elector_url("etcd://h/x").secret(variables)
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        parse_elector_url(f"etcd://u@h/x?password_file={file}.not").secret({})
    file.write_bytes(b"\xff")
    with pytest.raises(ValueError, match="it is no text"):
        parse_elector_url(f"etcd://u@h/x?password_file={file}").secret({})


def test_a_setting_is_read_once() -> None:
    """What was read stays what it is, and what is no text is refused."""
    url = parse_elector_url("etcd://h/x")
    assert url is read_elector(url)
    assert url == read_elector("etcd://h/x")
    assert read_elector(None) is None
    with pytest.raises(ValueError, match="no text"):
        read_elector(7)
