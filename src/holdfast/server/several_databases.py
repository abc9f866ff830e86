"""
The databases of a broker whose log is in several: how they are, and what an operator may ask.

They are told of as mirrors are: a broker has several directories, or several databases, never both.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.admin.status import MirrorStatus
from holdfast.errors import ConfigError, MirrorError
from holdfast.leases.contract import MediumFacts
from holdfast.raidb.caretaker import Caretaker


def database_statuses(facts: MediumFacts) -> tuple[MirrorStatus, ...]:
    """Each database; none where the log is in one."""
    told = [(place, *state.partition(": ")) for _, place, state in facts.members]
    return tuple(
        MirrorStatus(directory=place, state=state, reason=reason)
        for place, state, _, reason in told
    )


def change_database(caretaker: Caretaker, action: str, place: str, by: str) -> None:
    """
    Disable, enable or replace one of the databases, where this broker holds the lease; blocks.

    Raises:
        StoreError: It is none, or may not be changed so.
    """
    place, by = _name(place), _name(by)
    if action == "disable":
        caretaker.disable(place)
    elif action == "enable":
        caretaker.enable(place)
    else:
        caretaker.replace(place, by)


def _name(address: str) -> str:
    """A database as it is called, whoever writes its address with a password or without a port."""
    from holdfast.sql.url import parse_store_url

    if "://" not in address:
        return address
    try:
        return str(parse_store_url(address, own_directory=Path()))
    except ConfigError as error:
        raise MirrorError(str(error)) from None
