"""
Settings: options by name, ranges checked together, TLS contexts.
"""

from __future__ import annotations

import ssl
import subprocess

import pytest

from holdfast.client.settings import ClientSettings, TlsSettings, settings_from_options
from holdfast.errors import ConfigError
from holdfast.transport.certificates import make_client, open_authority


def test_options_become_settings() -> None:
    """What is not given has its default, and a passcode is not shown."""
    settings = settings_from_options({"prefetch_count": 5, "passcode": "secret"})
    assert settings.prefetch_count == 5
    assert settings.heart_beat_send_seconds == ClientSettings().heart_beat_send_seconds == 10
    assert "secret" not in repr(settings)


def test_unknown_options_are_all_named() -> None:
    """With the list of those there are."""
    with pytest.raises(ConfigError) as refused:
        settings_from_options({"colour": 1, "size": 2})
    assert [problem.split("'")[1] for problem in refused.value.problems] == ["colour", "size"]
    assert "prefetch_count" in str(refused.value)


def test_values_out_of_range_are_all_named() -> None:
    """Limits are above zero, times zero or more."""
    with pytest.raises(ConfigError) as refused:
        settings_from_options({"prefetch_count": 0, "heart_beat_send_seconds": -1})
    assert len(refused.value.problems) == 2


def test_a_ready_context_goes_before_files() -> None:
    """Who has a context of his own is asked nothing."""
    context = ssl.create_default_context()
    assert TlsSettings(context=context, ca_file="nowhere").build_context() is context


def test_a_context_checks_names_unless_told_not_to() -> None:
    """The safe way is the default."""
    assert TlsSettings().build_context().check_hostname
    assert not TlsSettings(verify_host_name=False).build_context().check_hostname


def test_a_missing_file_is_a_mistake_of_configuration() -> None:
    """The sentence names the file."""
    with pytest.raises(ConfigError, match=r"nowhere\.pem"):
        TlsSettings(ca_file="nowhere.pem").build_context()


def test_a_key_under_a_password_is_refused_and_nobody_is_asked(tmp_path) -> None:
    """OpenSSL would wait at the terminal, in the middle of whatever program connects."""
    key, locked = tmp_path / "own.pem", tmp_path / "locked.pem"
    authority, _ = open_authority(tmp_path)
    make_client(authority, key, "joe", 1)
    subprocess.run(
        [
            *("openssl", "ec", "-aes256", "-passout", "pass:secret-word"),
            *("-in", str(key), "-out", str(locked)),
        ],
        check=True,
        capture_output=True,
    )
    tls = TlsSettings(certificate_file=str(key), key_file=str(locked))
    with pytest.raises(ConfigError, match="kept under a password") as refused:
        tls.build_context()
    assert "secret-word" not in str(refused.value)
