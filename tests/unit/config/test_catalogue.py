"""
Every setting by its names, with its unit and range.
"""

from __future__ import annotations

import pytest

from holdfast.config.catalogue import CATALOGUE, SECTIONS, SPELLINGS, Setting, variable_names
from holdfast.config.reading import read_value
from holdfast.config.sections import OTHER_SPELLINGS, SHORT_NAMES

NOT_GIVEN_BY_DEFAULT = {"replication.copies", "data"}
"""Worked out from the members, and never guessed."""

KNOWN = """
data store store_confirm shared elector lease_seconds sql_messages
admin admin_connections admin_names admin_tls audit_file connections copies default_persistent
learner_hold listen members memory name peer_tls peers reader_hold secret_file site sites stomp
stomp_strict segment heartbeat_seconds election_seconds_min election_seconds_max log_level
log_format anonymous_role plain_without_tls scram
"""

ALL = pytest.mark.parametrize("setting", CATALOGUE.values(), ids=lambda it: it.path)


def test_the_names_that_users_know_are_names_for_ever() -> None:
    """
    Flags, variables and keys of before there were sections: scripts and files have them.
    """
    known = set(KNOWN.split())
    assert {it.name for it in CATALOGUE.values() if it.is_flag} == known
    assert variable_names() == {f"HOLDFAST_{name.upper()}" for name in known}
    assert {SPELLINGS[name].flag for name in known} == {
        "--member" if name == "members" else f"--{name.replace('_', '-')}" for name in known
    }


def test_no_two_settings_are_spelled_alike() -> None:
    """
    A spelling that meant two settings would set one of them by accident.
    """
    spellings = [*CATALOGUE, *SHORT_NAMES, *OTHER_SPELLINGS]
    assert len(set(spellings)) == len(spellings) == len(SPELLINGS)
    assert not set(SECTIONS) & {path for path in CATALOGUE if path not in {"stomp", "admin"}}


@ALL
def test_every_default_may_be_written_down(setting: Setting) -> None:
    """
    A file that sets everything to what it is anyway is a good file.
    """
    if setting.path not in NOT_GIVEN_BY_DEFAULT and setting.default is not None:
        assert read_value(setting, setting.default) == setting.default


@ALL
def test_every_number_has_a_unit_and_a_range(setting: Setting) -> None:
    """
    A limit without a limit of its own could be anything: also what breaks the node.
    """
    is_number = setting.type in (int, float)
    assert bool(setting.unit) == is_number
    if is_number:
        assert setting.allowed is not None
        for wrong in (setting.allowed.least - 1, -1):
            with pytest.raises(ValueError, match="out of range; allowed: "):
                read_value(setting, wrong)


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("journal.scrub_bytes_per_second", "bytes/s"),
        ("broker.memory_bytes", "bytes"),
        ("server.drain_seconds", "s"),
        ("server.clean_dead_ratio", "share"),
        ("stomp.heart_beat_grace_factor", "times"),
        ("broker.prefetch_max", "count"),
        ("stomp.is_strict", ""),
    ],
)
def test_the_unit_is_read_from_the_name(path: str, unit: str) -> None:
    """
    As people read it.
    """
    assert CATALOGUE[path].unit == unit
