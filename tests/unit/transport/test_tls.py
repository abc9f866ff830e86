"""
What a port shows and asks for by TLS: read from files, and read again.
"""

from __future__ import annotations

import _ssl
import base64
import contextlib
import ctypes
import hashlib
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.transport.certificates import make_node, open_authority
from holdfast.transport.tls import ServerTls, read_again, shown_by


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
    assert all(found.accepting not in {before, other.context} for _, found in made)
    assert good.context is before, "reading changes nothing"
    copy.write_text("broken")
    with pytest.raises(ConfigError, match=r"tls\.inside\.certificate"):
        read_again([good, other])


def written(certificates: Path, path: Path, how: str) -> bytes:
    """Write node.pem as others write such files; gives its certificate."""
    text = (certificates / "node.pem").read_text()
    shown = ssl.PEM_cert_to_DER_cert(text[: text.index("-----BEGIN PRIVATE")])
    if how == "trusted":  # What `openssl x509 -trustout` says beside the certificate: nothing.
        both = base64.encodebytes(shown + b"\x30\x00").decode()
        kind = "TRUSTED CERTIFICATE-----"
        key = text[text.index("-----BEGIN PRIVATE") :]
        text = f"-----BEGIN {kind}\n{both}-----END {kind}\n{key}"
    if how == "note":
        text = f"# made from -----BEGIN CERTIFICATE----- of the request\n{text}"
    if how == "windows":
        text = text.replace("\n", "\r\n")
    path.write_bytes(text.encode())
    return shown


@pytest.mark.parametrize("dials", [False, True])
@pytest.mark.parametrize("how", ["plain", "note", "trusted", "windows"])
def test_what_is_shown_is_what_openssl_takes(
    options, certificates: Path, tmp_path: Path, how: str, dials: bool
) -> None:
    """
    By it members know each other and the node's own user knows the port: however it is written.
    """
    shown = written(certificates, tmp_path / "node.pem", how)
    it = options(certificate=tmp_path / "node.pem", client="required")
    port = ServerTls(it, dials=dials)
    told = hashlib.sha256(shown).hexdigest()
    assert port.fingerprint == shown_by(port.context) == told
    assert port.dialing is None or shown_by(port.dialing) == told
    assert any("runs out at" in told for told in it.warnings(datetime.now(UTC) + timedelta(29)))


def revocations(folder: Path) -> bytes:
    """A list of an authority that has revoked nothing, good for a day, by OpenSSL itself."""
    (folder / "index.txt").touch()
    (folder / "number").write_text("01")
    (folder / "ca.cnf").write_text(
        f"[ca]\ndefault_ca=it\n[it]\ndatabase={folder}/index.txt\ncrlnumber={folder}/number\n"
        "default_md=sha256\ndefault_crl_days=1\n"
    )
    made = subprocess.run(
        [
            *("openssl", "ca", "-gencrl", "-config", folder / "ca.cnf"),
            *("-cert", folder / "ca.pem", "-keyfile", folder / "ca.key"),
        ],
        check=True,
        capture_output=True,
    )
    return made.stdout


def test_a_list_of_revocations_makes_no_authority(options, certificates, tmp_path) -> None:
    """
    A certificate in that file would be believed like one of `client_ca`: whoever may write what
    was revoked could let in whom he likes.
    """
    other, _ = open_authority(tmp_path / "other")
    assert other is not None
    authority, _ = open_authority(tmp_path)
    make_node(authority, tmp_path / "node.pem", "node", [], 30)
    crl = tmp_path / "crl.pem"
    crl.write_bytes(revocations(tmp_path))
    own = {"client": "wanted", "client_ca": tmp_path / "ca.pem", "crl": crl}
    assert options(**own).build_context().cert_store_stats()["x509_ca"] == 1
    lists, hidden = crl.read_bytes(), (tmp_path / "other" / "ca.pem").read_bytes()
    comment = b"# see -----BEGIN NOTE-----\n%b# -----END NOTE-----\n"
    for text in (
        hidden,
        lists + hidden,
        hidden + lists,
        # What reads the text by itself takes these for something else than OpenSSL does.
        lists + comment % hidden,
        lists + hidden.replace(b"-----END", b"-\n-----END"),
        lists + hidden.replace(b" CERTIFICATE", b" X509 CERTIFICATE"),
        lists + (b"#" * 1000 + b"\n") * 17_000 + hidden,
    ):
        crl.write_bytes(text)
        assert "would be believed as an authority" in problem(options(**own)), text[-200:]
        dialed = options(**own)
        with pytest.raises(ConfigError, match="would be believed as an authority"):
            dialed.build_dialing_context()
    crl.write_bytes((tmp_path / "ca.pem").read_bytes())
    assert "it is no PEM file of that kind" in problem(options(**own)), "it is believed already"
    crl.write_text("nothing")
    assert "it is no PEM file of that kind" in problem(options(**own))


def test_an_old_and_a_new_authority_are_both_believed(options, tmp_path) -> None:
    """
    While certificates are replaced: both stand in one file, and neither is in the other's way.
    """
    bundle = tmp_path / "both.pem"
    for name in ("old", "new"):
        authority, _ = open_authority(tmp_path / name)
        make_node(authority, tmp_path / name / "node.pem", "node", [], 30)
    bundle.write_bytes(b"".join((tmp_path / it / "ca.pem").read_bytes() for it in ("old", "new")))
    both = [open_authority(tmp_path / it)[0].certificate.subject for it in ("old", "new")]
    assert both[0] != both[1], "each authority has a name of its own"
    for name in ("old", "new"):
        ours = options(certificate=tmp_path / name / "node.pem").build_context()
        one, other = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.create_default_context(cafile=bundle).wrap_bio(
            one, other, server_hostname="localhost"
        )
        server = ours.wrap_bio(other, one, server_side=True)
        for _ in range(3):
            for end in (client, server):
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        assert client.getpeercert()


def test_what_has_run_out_is_told_and_used(options, certificates, tmp_path) -> None:
    """
    Refusing it would stop a node for what its clients may not even look at; but it is said, also
    before the time comes.
    """
    now = datetime.now(UTC)
    assert options(client_ca=certificates / "ca.pem", client="wanted").warnings(now) == []
    assert options().warnings(now + timedelta(days=23)) == []
    (soon,) = options().warnings(now + timedelta(days=27))
    assert soon.startswith(f"tls.outside.certificate: {certificates}/node.pem runs out at ")
    (over,) = options().warnings(now + timedelta(days=31))
    assert f"{certificates}/node.pem ran out at " in over
    assert "is valid from" in options().warnings(now - timedelta(days=1))[0]
    wrong = tmp_path / "chain.pem"
    other, _ = open_authority(tmp_path / "other")
    assert other is not None
    own = (certificates / "node.pem").read_bytes()
    wrong.write_bytes(own + (tmp_path / "other" / "ca.pem").read_bytes())
    (told,) = options(certificate=wrong).warnings(now)
    assert told.endswith("each certificate is to stand before the one that vouches for it")
    wrong.write_bytes(own + (certificates / "ca.pem").read_bytes())
    assert options(certificate=wrong).warnings(now) == []


def test_each_file_says_until_when_it_can_be_used(options, certificates, tmp_path) -> None:
    """
    Of two authorities of one name the later one counts: the other is what it was renewed from. Of
    two certificates the first, which is the one that is shown.
    """
    made = options(client="wanted").endings()
    assert [it.kind for it in made] == ["certificate", "client_ca"]
    assert made[0].named == "node"
    authority, _ = open_authority(certificates)
    make_node(authority, tmp_path / "later.pem", "node", [], 90)
    node, later = ((it).read_bytes() for it in (certificates / "node.pem", tmp_path / "later.pem"))
    both = tmp_path / "both.pem"
    both.write_bytes(node + later)
    both_ways = options(certificate=both, client_ca=both).endings()
    assert [(it.kind, it.ends - made[0].ends > timedelta(days=59)) for it in both_ways] == [
        ("certificate", False),
        ("client_ca", True),
    ]
    shown = ServerTls(options())
    assert shown.endings == shown.used.endings == made[:1]
    both.unlink()
    assert options(certificate=both).endings() == ()


def test_who_dials_knows_the_authorities_of_the_others(options, certificates, tmp_path) -> None:
    """Those of `ca`, else those of the clients; and what is shown is told by its digest."""
    open_authority(tmp_path)
    assert options().build_dialing_context().verify_mode == ssl.CERT_REQUIRED
    named = options(ca=tmp_path / "ca.pem", client="wanted").build_dialing_context()
    assert len(named.get_ca_certs()) == 1
    own = (tmp_path / "ca.pem").read_text()
    assert ssl.PEM_cert_to_DER_cert(own) in named.get_ca_certs(binary_form=True)
    text = tmp_path / "text"
    text.write_text("what")
    assert "tls.outside.ca: " in problem(options(ca=text))
    shown = ServerTls(options(client="wanted"), dials=True)
    assert shown.dialing is not None
    assert len(shown.fingerprint) == 64
    assert ServerTls(options()).dialing is None
