"""
Flags, environment and file: who wins, and what cannot be read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.node import NodeConfig
from holdfast.errors import ConfigError


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    """
    The nearer to the operator's fingers, the stronger: the order is part of the promise.
    """
    file = tmp_path / "holdfast.toml"
    file.write_text('name = "f"\nmemory = "17MiB"\nsite = "f"\n', encoding="utf-8")
    config = NodeConfig.load(
        flags={"data": tmp_path, "name": "flag", "memory": None},
        environment={"HOLDFAST_NAME": "env", "HOLDFAST_MEMORY": "18MiB", "HOLDFAST_SITE": ""},
        file=file,
    )
    assert (config.name, config.sections.broker.memory_bytes, config.site) == (
        "flag",
        18 * 1024 * 1024,
        "f",
    )


def test_a_short_secret_is_refused(tmp_path: Path, problems_of: Any) -> None:
    """
    A secret that can be guessed is none.
    """
    secret = tmp_path / "secret"
    secret.write_bytes(b"short\n")
    assert "holds 5 bytes; allowed: 16 or more" in problems_of(secret_file=secret)[0]


@pytest.mark.parametrize(
    ("content", "sentence"), [("name = ", "is not TOML"), (None, "cannot be read")]
)
def test_a_file_that_cannot_be_used_is_one_of_the_mistakes(
    tmp_path: Path, content: str | None, sentence: str
) -> None:
    """
    A missing or broken file is reported beside the other mistakes.
    """
    file = tmp_path / "holdfast.toml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=sentence) as caught:
        NodeConfig.load(flags={"copies": 0, "data": tmp_path}, environment={}, file=file)
    assert len(caught.value.problems) == 2


def test_strictness_may_stand_in_a_table_of_its_own(tmp_path: Path, load: Any) -> None:
    """
    `[stomp]` with `strict` and `address` is another way to write `stomp_strict` and `stomp`.
    """
    file = tmp_path / "holdfast.toml"
    file.write_text('name = "f"\n[stomp]\naddress = "127.0.0.1:7"\nstrict = true\n', "utf-8")
    config = NodeConfig.load(flags={"data": tmp_path}, environment={}, file=file)
    assert (str(config.stomp), config.sections.stomp.is_strict, config.name) == (
        "127.0.0.1:7",
        True,
        "f",
    )
    variables = {"HOLDFAST_STOMP_STRICT": "false"}
    assert not NodeConfig.load(
        flags={"data": tmp_path}, environment=variables, file=file
    ).sections.stomp.is_strict
    assert not load().sections.stomp.is_strict
    file.write_text("[stomp]\nstrikt = true\n", "utf-8")
    with pytest.raises(
        ConfigError, match=r"stomp.strikt: unknown setting; did you mean stomp\.strict"
    ):
        NodeConfig.load(flags={"data": tmp_path}, environment={}, file=file)


def test_a_secret_without_an_end_is_refused(problems_of: Any) -> None:
    """
    Reading it would take all the memory there is.
    """
    (told,) = problems_of(secret_file=Path("/dev/zero"))
    assert told == "secret_file: /dev/zero cannot be read: it is no regular file"


def test_a_pipe_holds_no_check_up(tmp_path: Path, problems_of: Any) -> None:
    """
    Nobody writes into it: the configuration in it and the secret in it are refused at once.
    """
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (told,) = problems_of(secret_file=pipe)
    assert told == f"secret_file: {pipe} cannot be read: it is no regular file"
    with pytest.raises(ConfigError, match="pipe cannot be read: it is no regular file"):
        NodeConfig.load(flags={"name": "a", "data": tmp_path}, environment={}, file=pipe)
