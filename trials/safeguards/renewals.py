"""
What lets certificates be renewed while a port is in use, switched off.

What is read goes into a context of its own, which nobody has before all of it could be read. Read
into the one in use, half of a renewal that fails would be shown to whoever comes next, and an
authority that was taken out would be believed until the process ends: a context forgets nothing.

A seed's world is a port whose files an operator renews: once with one that is broken, once well,
for another authority of clients. Handshakes are done in memory.
"""

# ruff: noqa: SLF001 - an ablation replaces what is inside; that is what it is for

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Final

from holdfast.errors import ConfigError
from holdfast.transport.certificates import make_client, make_node, open_authority
from holdfast.transport.client_tls import unchecked_context
from holdfast.transport.rehearsal import rehearse
from holdfast.transport.tls import ServerTls, TlsOptions
from trials.safeguards.ablation import Ablation, Patch

_DAYS: Final = 30


def _renewed(_seed: int) -> str:
    """Say whether a renewal that fails changes anything, or one that does not leaves anything."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        old, new = folder / "old", folder / "new"
        for each in (old, new):
            each.mkdir()
            authority, _ = open_authority(each)
            make_node(authority, each / "node.pem", "a", [], _DAYS)
            make_client(authority, each / "client.pem", "ada", _DAYS)
        paths = {name: folder / name for name in ("node.pem", "ca.pem")}
        _put(old, paths)
        options = TlsOptions(
            name="own",
            certificate=paths["node.pem"],
            client_ca=paths["ca.pem"],
            client="required",
        )
        port = ServerTls(options)
        return _after_a_broken_one(port, paths, old, new) or _after_a_good_one(
            port, paths, old, new
        )


def _put(source: Path, paths: dict[str, Path]) -> None:
    for name, path in paths.items():
        path.write_bytes((source / name).read_bytes())


def _after_a_broken_one(port: ServerTls, paths: dict[str, Path], old: Path, new: Path) -> str:
    shown = _shown(port.context, old / "client.pem")
    _put(new, paths)
    paths["ca.pem"].write_text("half of a")
    try:
        port.read()
    except ConfigError:
        if _shown(port.context, old / "client.pem") != shown:
            return "S8: half of a renewal that failed is shown to whoever comes next"
        return ""
    return "S8: a file that is none was taken"


def _after_a_good_one(port: ServerTls, paths: dict[str, Path], old: Path, new: Path) -> str:
    _put(new, paths)
    port.use(port.read())
    if not _shown(port.context, new / "client.pem"):
        return "S8: nobody of the new authority is let in"
    if _shown(port.context, old / "client.pem"):
        return "S8: an authority that was taken out is believed"
    return ""


def _shown(context: ssl.SSLContext, client: Path) -> bytes:
    """Give what a client with this certificate is shown; nothing if it is not let in."""
    asking = unchecked_context()
    asking.load_cert_chain(client)
    try:
        return rehearse(context, asking)[1].getpeercert(binary_form=True) or b""
    except ssl.SSLError:
        return b""


def _read_into_the_one_in_use() -> list[Patch]:
    new_context, made = TlsOptions._new_context, dict[int, ssl.SSLContext]()

    def same(self: TlsOptions, protocol: int) -> ssl.SSLContext:
        if protocol not in made:
            made[protocol] = new_context(self, protocol)
        self._load_own(made[protocol])
        return made[protocol]

    return [(TlsOptions, "_new_context", same)]


ABLATIONS = [
    Ablation("what is renewed is read into a context of its own", _read_into_the_one_in_use,
             lived=_renewed),
]  # fmt: skip
