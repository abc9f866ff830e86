"""The name that a certificate gives its holder."""

from __future__ import annotations

import pytest

from holdfast.security.certificate_names import name_of

SUBJECT = ((("countryName", "CH"),), (("commonName", "outer"),), (("commonName", "ann"),))


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (None, ""),
        ({}, ""),
        ({"subject": SUBJECT}, "ann"),
        ({"subject": ((("countryName", "CH"),),)}, ""),
        ({"subject": SUBJECT, "subjectAltName": (("DNS", "a.example"), ("DNS", "b"))}, "a.example"),
        ({"subject": SUBJECT, "subjectAltName": (("email", "ann@b"), ("DNS", "b"))}, "ann@b"),
        ({"subject": SUBJECT, "subjectAltName": (("IP Address", "10.0.0.1"),)}, "ann"),
        ({"subject": SUBJECT, "subjectAltName": (("URI", "x:y"), ("DNS", "b"))}, "b"),
    ],
)
def test_one_rule_says_which_name_counts(certificate: object, name: str) -> None:
    """An alternative name before the common one, of several the first; addresses are no names."""
    assert name_of(certificate) == name
