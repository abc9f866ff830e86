"""
What a file says of TLS: each mistake with its line, and files that are looked at at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config.node import NodeConfig, mistakes_in
from holdfast.transport.certificates import make_node, open_authority
from holdfast.transport.tls import TlsOptions


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("made")
    authority, _ = open_authority(directory)
    make_node(authority, directory / "a.pem", "a", [], 1)
    return directory


def mistakes(folder: Path, made: Path, text: str) -> list[str]:
    file = folder / "h.toml"
    file.write_text(text.replace("@", str(made)))
    return mistakes_in(file)


def test_ports_go_by_the_tables_they_name(tmp_path: Path, made: Path) -> None:
    """Two ports may go by one table; a table that nobody names does no harm."""
    file = tmp_path / "h.toml"
    file.write_text(
        f"""
        [[listen]]
        address = "0.0.0.0:61614"
        tls = "outside"
        [tls.outside]
        certificate = "{made}/a.pem"
        [tls.inside]
        certificate = "{made}/a.pem"
        client_ca = "{made}/ca.pem"
        client = "required"
        minimum = "1.3"
        """
    )
    found = NodeConfig.load(flags={}, environment={}, file=file, is_data_needed=False)
    assert [str(it) for it in found.listen] == ["0.0.0.0:61614,stomp,tls=outside"]
    assert found.tls["outside"] == TlsOptions(name="outside", certificate=made / "a.pem")
    inside = found.tls["inside"]
    assert (inside.client, inside.minimum, inside.key) == ("required", "1.3", None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tls = 3", "tls: is a table: write [tls.NAME] and its keys below it (h.toml line 1)"),
        ("[tls]\nx = 1", "tls.x: is a table: write [tls.NAME] and its keys below it (h.toml line"),
        ("[tls.x]", "tls.x: certificate is missing: the file with what the port shows (h.toml l"),
        ('[tls."x y"]\ncertificate="@/a.pem"', "tls.x y: 'x y': a name has 1 to 63 letters"),
        ("[tls.x]\ncertificate = 7", "tls.x.certificate: '7' is not a path: write it in quotes"),
        ('[tls.x]\ncertificate = ""', "tls.x.certificate: '' is not a path"),
        (
            '[tls.x]\ncertificate="@/a.pem"\n\nclient="maybe"',
            "tls.x.client: 'maybe' is none of what is allowed: 'none', 'wanted', 'required' (h.t",
        ),
        (
            '[tls.x]\ncertificate="@/a.pem"\nminimum=1.2',
            "tls.x.minimum: '1.2' is none of what is allowed: '1.2', '1.3' (h.toml line 3)",
        ),
        (
            '[tls.x]\ncertificate="@/a.pem"\npassword="x"',
            "tls.x.password: unknown key; a table of TLS has certificate, key, client_ca, client",
        ),
        (
            '[tls.x]\ncertificate="@/a.pem"\nclient="wanted"',
            "tls.x: client_ca is missing: without it no certificate of a client can be checked",
        ),
        (
            '[tls.x]\ncertificate="@/a.pem"\nclient_ca="@/ca.pem"',
            "tls.x: client_ca is of use with client = 'wanted' or 'required' only",
        ),
        (
            '[tls.x]\ncertificate="@/a.pem"\ncrl="@/ca.pem"',
            "tls.x: crl is of use with client = 'wanted' or 'required' only",
        ),
        (
            '[tls.x]\ncertificate="@/b.pem"',
            "tls.x.certificate: @/b.pem cannot be read: no such file or directory (h.toml line 2)",
        ),
    ],
)
def test_each_mistake_is_told_once_with_its_line(
    tmp_path: Path, made: Path, text: str, told: str
) -> None:
    """Also where a port names the table: it is not said to be missing on top of that."""
    port = '[[listen]]\naddress = "h:1"\ntls = "x"\n' if text.startswith("[tls.x]") else ""
    (problem,) = mistakes(tmp_path, made, f"{text}\n{port}")
    assert problem.startswith(told.replace("@", str(made)))


def test_too_many_tables_are_one_mistake(tmp_path: Path, made: Path) -> None:
    """Each would be read from files; a file of a megabyte may have thousands."""
    text = "\n".join(f"[tls.t{number}]" for number in range(65))
    assert mistakes(tmp_path, made, text)[0].startswith("tls: 65 tables; allowed: at most 64")
