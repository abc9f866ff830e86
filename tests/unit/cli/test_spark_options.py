"""What every command on Spark shares."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.spark_options import conf_of, own_sentence, remote_log, told_plainly
from holdfast.errors import ArchiveError, ConfigError, StoreError

TRACE = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "x.py", line 1, in y
holdfast.errors.CorruptEntryError: the body checksum is wrong at segment 1 byte 4,096 (entry 7)

\tat org.apache.spark.api.python (Worker.scala:1)
"""


def test_settings_of_spark_are_read() -> None:
    """
    A value may hold an equals sign; a pair without one is a mistake.
    """
    assert {"a.b": "c=d", "e": ""} == conf_of(["a.b=c=d", "e="])
    assert {} == conf_of(None)
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        conf_of(["x"])


def test_a_workers_fault_is_one_sentence() -> None:
    """
    Of two tracebacks of other people's code the sentence that was meant is left.
    """
    assert own_sentence(TRACE).startswith("the body checksum is wrong at segment 1")
    with pytest.raises(StoreError, match=r"^the body checksum"), told_plainly():
        raise RuntimeError(TRACE)


def test_other_faults_stay_as_they_are() -> None:
    """
    A fault of ours needs no translation, and one of Spark's is not hidden.
    """
    with pytest.raises(ArchiveError), told_plainly():
        raise ArchiveError("x")
    with pytest.raises(ZeroDivisionError), told_plainly():
        raise ZeroDivisionError


def test_the_cluster_is_named_by_its_admin_ports(tmp_path: Path) -> None:
    """
    Several addresses, and a token made from the secret, which itself does not travel.
    """
    secret = tmp_path / "secret"
    secret.write_text("s3cret")

    log = remote_log("http://a:1,b:2", secret)

    assert ("a:1", "b:2") == log.addresses
    assert "s3cret" not in log.token
    with pytest.raises(ConfigError):
        remote_log("nonsense", None)
