"""
What a port shows and asks for by TLS: read from files, and read again.
"""

from __future__ import annotations

import _ssl
import contextlib
import ctypes
import ssl
import subprocess
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.transport.tls import ServerTls, read_again


def test_what_is_asked_of_clients_and_which_versions_are_spoken(options) -> None:
    """The words of the file, in those of the library."""
    plain = options().build_context()
    assert (plain.verify_mode, plain.minimum_version) == (ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2)
    assert plain.options & ssl.OP_NO_RENEGOTIATION
    wanted = options(client="wanted", minimum="1.3").build_context()
    assert wanted.minimum_version == ssl.TLSVersion.TLSv1_3
    assert wanted.verify_mode == ssl.CERT_OPTIONAL
    assert options(client="required").build_context().verify_mode == ssl.CERT_REQUIRED


def agreed(server: ssl.SSLContext, certificates: Path, groups: bytes) -> str:
    """Shake hands with a client that knows these groups only: what came of it."""
    library = ctypes.CDLL(_ssl.__file__)
    library.SSL_ctrl.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_char_p]
    one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context(cafile=certificates / "ca.pem").wrap_bio(
        one, other, server_hostname="localhost"
    )
    inner = id(client._sslobj) + object.__basicsize__  # type: ignore[attr-defined]
    pointer = ctypes.c_void_p.from_address(inner + ctypes.sizeof(ctypes.c_void_p)).value
    assert library.SSL_ctrl(pointer, 92, 0, groups) == 1
    ours = server.wrap_bio(other, one, server_side=True)
    try:
        for _ in range(5):
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
            with contextlib.suppress(ssl.SSLWantReadError):
                ours.do_handshake()
    except ssl.SSLError as error:
        return str(error.reason)
    return str(ours.version())


def test_nobody_chooses_a_group_that_stops_the_loop(options, certificates: Path) -> None:
    """
    One greeting with the largest of finite fields, from anybody, took 120 ms of the node; it is
    refused as well where it comes first among others, and whoever knows the usual one comes in.
    """
    context = options().build_context()
    for groups in (b"ffdhe8192", b"ffdhe2048", b"X25519:ffdhe8192"):
        assert agreed(context, certificates, groups) == "NO_SUITABLE_KEY_SHARE", groups
    for groups in (b"P-256", b"X25519:P-256", b"ffdhe8192:P-256"):
        assert agreed(context, certificates, groups) == "TLSv1.3", groups


def problem(options) -> str:
    with pytest.raises(ConfigError) as caught:
        options.build_context()
    (sentence,) = caught.value.problems
    return sentence


def test_what_cannot_be_used_is_told_by_its_key(options, certificates: Path, tmp_path) -> None:
    """Missing, no PEM, another's key, no file: one sentence, with table, key and file."""
    missing = tmp_path / "missing.pem"
    text = tmp_path / "text.pem"
    text.write_text("what")
    assert problem(options(certificate=missing)) == (
        f"tls.outside.certificate: {missing} cannot be read: no such file or directory"
    )
    assert problem(options(certificate=text)).startswith("tls.outside.certificate: ")
    assert "is not the key of" in problem(options(key=certificates / "joe.pem"))
    assert problem(options(client="wanted", client_ca=text)) == (
        f"tls.outside.client_ca: {text} is not used: it is no PEM file of that kind"
    )
    assert "is no regular file" in problem(options(client="wanted", crl=tmp_path))


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(
    options, certificates, tmp_path
) -> None:
    """A node that starts at night would wait at a terminal that nobody sits at."""
    locked = tmp_path / "locked.pem"
    subprocess.run(
        [
            *("openssl", "ec", "-aes256", "-passout", "pass:secret-word"),
            *("-in", certificates / "node.pem", "-out", locked),
        ],
        check=True,
        capture_output=True,
    )
    sentence = problem(options(key=locked))
    assert "under a password" in sentence
    assert "secret-word" not in sentence


def test_all_are_read_again_or_none_is_changed(options, tmp_path, certificates) -> None:
    """A renewal that is half done leaves what was there, and says all that is wrong."""
    copy = tmp_path / "node.pem"
    copy.write_bytes((certificates / "node.pem").read_bytes())
    good, other = ServerTls(options()), ServerTls(options(certificate=copy, name="inside"))
    before = good.context
    made = read_again([good, other])
    assert [each for each, _ in made] == [good, other]
    assert all(context not in {before, other.context} for _, context in made)
    assert good.context is before, "reading changes nothing"
    copy.write_text("broken")
    with pytest.raises(ConfigError, match=r"tls\.inside\.certificate"):
        read_again([good, other])
