"""What an operator may write for a database, and what is said of what cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.environment.remote_server import Host
from holdfast.errors import ConfigError
from holdfast.sql.url import StoreUrl, parse_store_url, standing

OWN = Path("/var/lib/holdfast/a")


def parse(text: str, **environment: str) -> StoreUrl:
    return parse_store_url(text, own_directory=OWN, environment=environment)


def problem(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse(text)
    (sentence,) = raised.value.problems
    assert sentence.startswith("store: ")
    return sentence


def test_a_file_is_named_by_its_whole_path() -> None:
    """Its URL has no host, and its text leads back to it."""
    url = parse("sqlite:////srv/store.db")

    assert (url.kind, url.hosts, url.database) == ("sqlite", (), "/srv/store.db")
    assert parse(str(url)) == url


@pytest.mark.parametrize(
    "text",
    [
        "sqlite:////a b/x%25y.db",
        "postgresql://u:p%40x@h1:1,h2/db?sslmode=require&sslrootcert=/etc/c%20a",
        "mysql://h/db",
        "mariadb://u@[::1]:5/d-b",
        "postgresql://:pw@h/d",
    ],
)
def test_a_place_is_the_same_where_no_environment_is(text: str) -> None:
    """A worker on another machine is told the password too, by the text alone."""
    here = parse(text, HOLDFAST_STORE_PASSWORD="s/e:c@r t")
    there = standing(text, own_directory=OWN, environment={"HOLDFAST_STORE_PASSWORD": "s/e:c@r t"})
    assert parse(there) == here
    assert here.password or here.kind == "sqlite"


def test_a_relative_file_is_refused_with_one_that_is_not() -> None:
    """Two brokers started from two places would have two logs: a whole path is proposed."""
    assert "sqlite:////var/lib/holdfast/store.db" in problem("sqlite:///store.db")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sqlite://", "memory"),
        ("sqlite:///:memory:", "memory"),
        ("sqlite://host/store.db", "no host"),
        ("sqlite:////srv/store.db?cache=shared", "?cache= is not known for sqlite"),
        ("postgre://db/holdfast", "'postgre' is no database that is known"),
        ("holdfast", "this is no database that is known"),
        ("", "this is no database that is known"),
        ("postgresql://db1,db2", "the name of the database is missing behind db2:5432"),
        ("postgresql:///holdfast", "a host is missing"),
        ("mysql://db1,,db3/holdfast", "a host is missing"),
        ("postgresql://db:port/holdfast", "no URL of a database"),
        ("postgresql://db/holdfast?sslmod=require", "?sslmod= is not known for postgresql"),
        ("mysql://db/holdfast?password_file=/no/such/file", "/no/such/file cannot be read"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_sentence(text: str, said: str) -> None:
    """What is wrong, and what to write."""
    assert said in problem(text)


def test_several_hosts_stand_in_one_url() -> None:
    """In their order, each with its port or the usual one."""
    url = parse("postgresql://me@db1:6000,db2,[::1]:7000/holdfast?sslmode=require")

    assert url.hosts == (Host("db1", 6000), Host("db2", 5432), Host("::1", 7000))
    assert url.options == {"sslmode": "require"}
    assert str(url) == "postgresql://me@db1:6000,db2:5432,[::1]:7000/holdfast"


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql"])
def test_mariadb_and_mysql_are_one_kind(scheme: str) -> None:
    """Whatever their URL is called; the port is theirs."""
    url = parse(f"{scheme}://db/holdfast")

    assert (url.kind, url.hosts) == ("mysql", (Host("db", 3306),))


def test_the_password_comes_by_url_file_or_environment(tmp_path: Path) -> None:
    """In this order; a file's last line end is not part of it."""
    file = tmp_path / "password"
    file.write_text("of the file\n")

    by_url = parse(f"mysql://me:p%40ss@db/x?password_file={file}", HOLDFAST_STORE_PASSWORD="env")
    by_file = parse(f"mysql://me@db/x?password_file={file}", HOLDFAST_STORE_PASSWORD="env")
    by_environment = parse("mysql://me@db/x", HOLDFAST_STORE_PASSWORD="env")

    assert [it.password for it in (by_url, by_file, by_environment)] == [
        "p@ss",
        "of the file",
        "env",
    ]
    assert by_file.options == {}
    assert not parse("mysql://me@db/x").password


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:secret@db1,db2/holdfast",
        "postgresql://me:secret@db:port/holdfast",
        "postgresql://me:secret@/holdfast",
        "postgresql://me:secret@db/holdfast?x=1",
        "postgre://me:secret@db/holdfast",
        "postgresql://me:sec/ret@db/holdfast",
        "postgresql:me:secret@db",
    ],
)
def test_a_password_is_never_told(text: str) -> None:
    """Neither by what was read, nor by what is said of what could not be."""
    try:
        url = parse(text)
    except ConfigError as error:
        told = f"{error} {error!r} {error.__cause__} {error.problems}"
    else:
        told = f"{url} {url!r}"
    assert "secret" not in told
    assert "sec/ret" not in told
