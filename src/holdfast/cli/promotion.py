"""
`holdfast cluster promote NAME... --force`: go on with these nodes when the others are lost.

It needs the operator's word, as it shuts the others out for good: a member that still answers and
is not named stops it. Of several named the furthest decides; it is asked, and the others follow it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import typer

from holdfast.admin.promotion import (
    PromotionReport,
    furthest,
    promotion_report,
)
from holdfast.cli.admin_port import beside, read_status, to_ask, to_change
from holdfast.cli.output import write_error, write_line
from holdfast.cli.silence import require_silence
from holdfast.errors import LinkLostError, MembershipError

FOLLOW_SECONDS_MAX: Final = 60.0
"""So long is looked whether those that go on together are voters; they become so anyway."""

_LOOK_SECONDS: Final = 0.5


def promote_force(
    names: Sequence[str],
    admin: str,
    secret_file: Path | None,
    *,
    is_stated: bool,
    is_incomplete: bool,
) -> None:
    """
    Tell what would be lost, ask for the operator's word, and let these nodes go on.

    Raises:
        MembershipError: A node that is not named answers, or one that is cannot go on.
        LinkLostError: One that is named does not answer.
    """
    places = _places(names, admin)
    statuses = [read_status(to_ask(place)) for place in places.values()]
    chief = furthest(statuses) if len(statuses) > 1 else statuses[0]
    ends = [it.log_end for it in statuses if it is not chief and it.log_end is not None]
    report = promotion_report(chief, ends)
    require_silence(statuses, places, admin)
    _explain(report)
    if report.incomplete and not is_incomplete:
        raise MembershipError(
            f"{chief.name} is not promoted: say --incomplete to accept what is missing"
        )
    dead = " and ".join(report.shut_out) or "the others"
    if not is_stated and not typer.confirm(f"Are {dead} dead, for good?", err=True):
        raise typer.Exit(1)
    body = {
        "name": chief.name,
        "force": True,
        "peers_are_dead": True,
        "incomplete": is_incomplete,
    }
    if ends:
        body["companions"] = [asdict(end) for end in ends]
    place = places[chief.name]
    to_change(place, secret_file).change("POST", "/cluster/promote", body)
    if ends:
        write_line(f"{chief.name} leads a new generation of the cluster")
        _await_voters(place, report.companions)
        return
    write_line(f"{chief.name} goes on alone; add new members when there are machines for them")


def _places(names: Sequence[str], admin: str) -> dict[str, str]:
    """Where the admin ports of these nodes are, as the given node or any of them knows."""
    known: dict[str, str] = {}
    asked = read_status(to_ask(admin))
    seen = [asked]
    known[asked.name] = admin
    for status in seen:
        for member in status.members:
            if member.name in names and member.name not in known and member.admin:
                known[member.name] = beside(admin, member.admin)
                if len(names) > 1:
                    seen.append(read_status(to_ask(known[member.name])))
    for name in names:
        if name not in known:
            raise MembershipError(
                f"{asked.name} does not know where {name} is: give the admin port of {name} itself"
            )
    return {name: known[name] for name in dict.fromkeys(names)}


def _explain(report: PromotionReport) -> None:
    write_error(f"{report.may_lack}.")
    for sentence in report.behind:
        write_error(f"{sentence}.")
    who = " and ".join((report.name, *report.companions))
    goes = f"{who} go on together" if report.companions else f"{who} goes on alone"
    write_error(
        f"If {goes}, these are shut out for good, and may come back only as"
        f" new members with empty data directories: {', '.join(report.shut_out) or 'none'}."
    )


def _await_voters(place: str, names: Sequence[str]) -> None:
    """Tell of each that has become a voter, and of those that have not in time."""
    waiting = list(names)
    deadline = time.monotonic() + FOLLOW_SECONDS_MAX
    while waiting and time.monotonic() < deadline:
        try:
            status = read_status(to_ask(place))
        except LinkLostError:
            break  # It may have handed over, or died: the others are told of below.
        for name in list(waiting):
            member = status.member(name)
            if member is not None and member.kind == "voter":
                waiting.remove(name)
                write_line(f"{name} is a voter now")
        if waiting:
            time.sleep(_LOOK_SECONDS)
    for name in waiting:
        write_error(f"{name} is no voter yet; 'holdfast cluster status' tells when it is")
