"""
`holdfast status` and `holdfast cluster …`: see the members and change them.

Every command may be given any node; changes reach the leader by themselves. Promotion by force, the
one thing that goes to the promoted node itself, is in `promotion`. The two that show something end
with 1 where there is trouble, also with --json: a node that does not do its part, nobody who leads.
"""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.admin.counters import TopicCounters
from holdfast.admin.status import HoldStatus, MemberStatus, NodeStatus, as_json
from holdfast.cli.admin_port import (
    ADMIN_DEFAULT,
    AdminOption,
    JsonOption,
    SecretOption,
    YesOption,
    leaders_status,
    parse_status,
    read_holds,
    read_status,
    to_ask,
    to_change,
)
from holdfast.cli.leaderless import cluster_trouble, trouble
from holdfast.cli.lease_fields import lease_fields
from holdfast.cli.output import (
    confirm,
    format_seconds,
    format_size,
    write_error,
    write_fields,
    write_json,
    write_line,
    write_table,
)
from holdfast.cli.promotion import promote_force
from holdfast.config.members import parse_member
from holdfast.errors import ConfigError

EXIT_TROUBLE = 1
CLUSTER_KEYS = (
    *("role", "leader", "term", "generation", "commit_index"),
    *("copies", "sites", "cluster_id", "members"),
)
MEMBER_COLUMNS = (
    *("name", "role", "kind", "site", "address", "last seen"),
    *("entries behind#", "bytes#", "time#"),
)

cluster = typer.Typer(no_args_is_help=True, help="The members of the cluster, and who leads.")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command("status")(status)
    app.add_typer(cluster, name="cluster")


def status(admin: AdminOption = ADMIN_DEFAULT, json: JsonOption = False) -> None:
    """What one node is and how far its log goes."""
    node = to_ask(admin)
    if json:
        answer = node.get("/status")
        write_json(answer)
        _end(trouble(parse_status(node, answer)))
        return
    found = read_status(node)
    holds = read_holds(node)
    write_fields([*_node_fields(found), ("kept for", _kept_for(holds))])
    for hold in holds or ():
        if hold.is_near_bound:
            write_error(
                f"the log is kept for {hold.name} almost as far as it may be: beyond that its"
                f" entries are dropped"
            )
        if hold.is_near_expiry:
            write_error(
                f"{hold.name} was not heard of for {format_seconds(hold.silent_seconds)}: after"
                f" {format_seconds(hold.expiry_seconds)} the log is not kept for it any more"
            )
        if hold.lost_through:
            because = ", as the disk was almost full" if hold.lost_because == "space" else ""
            write_error(
                f"{hold.name} has lost entries up to {hold.lost_through:,}: they were dropped"
                f" before it took them{because}"
            )
    for certificate in found.certificates:
        if certificate.state != "good":
            write_error(f"{certificate.sentence}; put a new one in its place and reload")
    for damage in found.store.unrepaired:
        write_error(
            f"damage: {damage.reason} in {damage.segment} at byte {damage.byte:,},"
            f" entry {damage.index:,}"
        )
    _end(trouble(found))


def _end(reason: str) -> None:
    """Tell the trouble, if there is any, and end with its code."""
    if reason:
        write_error(reason)
        raise typer.Exit(EXIT_TROUBLE)


def _format_level(status: NodeStatus) -> str:
    asked = status.format_level_asked
    coming = f"; {asked} is written and not committed yet" if asked else ""
    return f"{status.format_level}{coming}"


def _node_fields(status: NodeStatus) -> list[tuple[str, object]]:
    store, messages = status.store, status.messages
    serving = "serving clients" if status.serving else "not serving clients"
    return [
        ("name", status.name),
        ("role", f"{status.role}, {serving}" if status.role == "leader" else status.role),
        ("leader", status.leader),
        ("term", status.term),
        ("commit index", status.commit_index),
        ("applied index", status.applied_index),
        ("format level", _format_level(status)),
        ("members", ", ".join(_named(status, it) for it in status.members) or "single node"),
        *[("waits for", f"{it.name} at {it.address}: {it.reason}") for it in status.awaits],
        ("copies, sites", f"{status.copies}, {status.sites}"),
        ("cluster", status.cluster_id),
        *(lease_fields(status.lease) if status.lease is not None else []),
        ("stomp", status.stomp),
        ("admin", status.admin),
        ("connections", status.connections),
        ("messages", f"{store.live_messages:,} held, {messages.enqueued:,} in since the start"),
        *_topic_fields(status.topics),
        ("on disk", f"{format_size(store.bytes_on_disk)} in {store.segments:,} segments"),
        ("space", store.space if store.free_bytes is None else _space(status)),
        ("disk", _disk(status)),
        ("damage", f"{store.unrepaired_count:,} places" if store.unrepaired_count else "none"),
        *([("waits", store.unknown_end)] if store.unknown_end else []),
        *[("lives in damage", name) for name in store.pinned_queues],
        *[("store warning", it) for it in store.warnings],
        *[("cannot be removed", path) for path in store.unremovable],
        *[(f"mirror {it.state}", f"{it.directory} {it.reason}") for it in store.mirrors],
        *_certificate_fields(status),
        ("up for", format_seconds(status.uptime_seconds)),
        ("version", status.version),
    ]


def _certificate_fields(status: NodeStatus) -> list[tuple[str, object]]:
    """The one that runs out first, if there are any; each that does so soon is told below."""
    if not status.certificates:
        return []
    first = status.certificates[0]
    left = format_seconds(abs(first.left_seconds))
    when = f"ran out {left} ago" if first.state == "over" else f"runs out in {left}"
    return [("certificates", f"tls.{first.tls}.{first.kind} {when}, {first.ends}")]


def _topic_fields(topics: TopicCounters) -> list[tuple[str, object]]:
    """What is stored of topics, if anything may be."""
    if not topics.stored:
        return []
    offline = "" if topics.offline is None else f", {topics.offline:,} without a consumer"
    held = f"{topics.messages:,} messages, {format_size(topics.bytes)}"
    return [
        ("stored topics", f"{topics.stored:,}, with {held}"),
        ("durable subscriptions", f"{topics.durable_subscriptions:,}{offline}"),
    ]


def _named(status: NodeStatus, member: MemberStatus) -> str:
    if member.connected or member.name == status.name:
        return member.name
    return f"{member.name} (dead, last seen {_last_seen(member)})"


def _last_seen(member: MemberStatus) -> str:
    seconds = member.last_seen_seconds
    return "not since the start" if seconds is None else f"{format_seconds(seconds)} ago"


def _kept_for(holds: list[HoldStatus] | None) -> str:
    """Whom the log is kept for, and how much of what it may be."""
    if holds is None:
        return "told with a proof only"
    return ", ".join(
        f"{it.name} {format_size(it.held_bytes)} of {format_size(it.bytes_max)}" for it in holds
    )


def _space(status: NodeStatus) -> str:
    full = " (full of messages that live)" if status.store.is_full_of_live else ""
    return f"{status.store.space}{full}, {format_size(status.store.free_bytes)} free"


def _disk(status: NodeStatus) -> str:
    store = status.store
    if store.is_out_of_room and status.lease is not None:
        return "full: make room in --data, which is no part of the log"
    if store.is_out_of_room:
        return "full: nothing is stored until there is room"
    if not store.disk_hangs:
        return "ok"
    return f"hangs: it has got nothing done for {format_seconds(store.disk_wait_seconds)}"


@cluster.command("status")
def cluster_status(admin: AdminOption = ADMIN_DEFAULT, json: JsonOption = False) -> None:
    """The members and how far each is behind, as the leader sees it."""
    seen = leaders_status(read_status(to_ask(admin)), admin)
    if json:
        whole = as_json(seen)
        write_json({"seen_by": seen.name} | {key: whole[key] for key in CLUSTER_KEYS})
        _end(cluster_trouble(seen))
        return
    write_table(
        MEMBER_COLUMNS,
        [_member_row(seen, member.name) for member in seen.members],
    )
    leader = f"leader {seen.leader}" if seen.leader else "no leader"
    write_line(
        f"{leader}, term {seen.term}, commit index {seen.commit_index:,},"
        f" copies {seen.copies}, sites {seen.sites}; seen by {seen.name}"
    )
    for member in seen.members:
        if member.space_low:
            write_error(f"the disk of {member.name}, a witness, is almost full: give it more room")
        if member.disk_hangs:
            write_error(f"the disk of {member.name} hangs: it stores nothing until that answers")
    if seen.role != "leader" and seen.leader is not None:
        write_error("only the leader knows how far the others are, and it did not answer")
    _end(cluster_trouble(seen))


def _member_row(status: NodeStatus, name: str) -> tuple[object, ...]:
    member = status.member(name)
    assert member is not None
    is_leader = name == status.leader
    role: str = "leader" if is_leader else status.role if name == status.name else "follower"
    if member.kind != "voter" and not is_leader:
        role = member.kind
    is_connected = member.connected or name == status.name
    if not is_connected:
        role = "dead"
    is_known = member.lag_entries is not None and not is_leader
    return (
        name,
        role,
        member.kind,
        member.site,
        member.address,
        "now" if is_connected else _last_seen(member),
        member.lag_entries if is_known else None,
        format_size(member.lag_bytes) if is_known else None,
        format_seconds(member.lag_seconds) if is_known else None,
    )


@cluster.command("add")
def add(
    member: Annotated[str, typer.Argument(metavar="NAME=HOST:PORT[,witness|,learner][,site=NAME]")],
    admin: AdminOption = ADMIN_DEFAULT,
    secret_file: SecretOption = None,
) -> None:
    """Admit a new member."""
    try:
        wanted = parse_member(member)
    except ValueError as error:
        raise ConfigError([f"member: {error}"]) from error
    body = {
        "name": wanted.name,
        "address": str(wanted.address),
        "kind": wanted.kind,
        "site": wanted.site,
    }
    to_change(admin, secret_file).change("POST", "/cluster/add", body)
    write_line(f"{wanted.name} was added as {wanted.kind}")


@cluster.command("remove")
def remove(
    name: str,
    yes: YesOption = False,
    admin: AdminOption = ADMIN_DEFAULT,
    secret_file: SecretOption = None,
) -> None:
    """Remove a member for good."""
    confirm(f"Remove {name} from the cluster, for good?", is_stated=yes)
    to_change(admin, secret_file).change("POST", "/cluster/remove", {"name": name})
    write_line(f"{name} was removed")


@cluster.command("transfer")
def transfer(
    to: Annotated[
        str | None, typer.Option("--to", metavar="NAME", help="The new leader; else the best.")
    ] = None,
    admin: AdminOption = ADMIN_DEFAULT,
    secret_file: SecretOption = None,
) -> None:
    """Hand leadership to another member."""
    answer = to_change(admin, secret_file).change("POST", "/cluster/transfer", {"to": to})
    write_line(f"{answer['leader']} is the leader now")


@cluster.command("promote")
def promote(
    names: Annotated[list[str], typer.Argument(metavar="NAME...")],
    force: Annotated[
        bool, typer.Option("--force", help="Go on with these alone: all others are dead.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="State that they are dead without being asked.")
    ] = False,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Accept a log that is only half filled anew.")
    ] = False,
    admin: AdminOption = ADMIN_DEFAULT,
    secret_file: SecretOption = None,
) -> None:
    """Make learners voters; or, with --force, let these nodes go on without the others."""
    if force:
        promote_force(names, admin, secret_file, is_stated=yes, is_incomplete=incomplete)
        return
    node = to_change(admin, secret_file)
    for name in names:
        node.change("POST", "/cluster/promote", {"name": name})
        write_line(f"{name} is a voter now")
