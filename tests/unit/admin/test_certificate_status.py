"""
What is said of a certificate that runs out.
"""

from __future__ import annotations

import pytest

from holdfast.admin.certificate_status import CertificateStatus


@pytest.mark.parametrize(
    ("tls", "kind", "what"),
    [
        ("outside", "certificate", "whoever comes by TLS turns away from this node"),
        ("outside", "client_ca", "whoever shows a certificate of it is turned away"),
        ("outside", "crl", "nobody who shows a certificate is let in"),
        ("outside", "invented-later", ""),
        ("peers", "certificate", "a link between members that breaks"),
        ("peers", "crl", "a link between members that breaks"),
    ],
)
def test_a_sentence_says_what_comes_of_it(tls: str, kind: str, what: str) -> None:
    """Whoever reads it at night has to know whether it can wait."""
    over = CertificateStatus(tls=tls, kind=kind, named="a", ends="then", state="over")
    assert over.sentence.startswith(f"tls.{tls}.{kind} (a) ran out at then:")
    assert what in over.sentence
    soon = CertificateStatus(tls=tls, kind=kind, ends="then", state="soon")
    assert soon.sentence.startswith(f"tls.{tls}.{kind} runs out at then: from then on")


def test_of_ports_only_what_has_run_out_is_trouble() -> None:
    """Of links a week before, too: by then it is nobody's plan any more."""
    states = ("good", "soon", "urgent", "over")
    told = {
        tls: [CertificateStatus(tls=tls, state=it).is_trouble for it in states]
        for tls in ("peers", "outside")
    }
    assert told == {"peers": [False, False, True, True], "outside": [False, False, False, True]}
