"""
How settings must fit together: members, copies and sites, timings, ports.

A relation is only looked at where each of its values is right by itself; so all mistakes are
reported at once, and none twice.

Pure, but for one look at whether the data directory is a directory.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.config.draft import Draft
from holdfast.config.members import MemberConfig
from holdfast.config.node_settings import NodeSettings
from holdfast.config.reading import shown_path
from holdfast.config.tls import PEERS_TABLE
from holdfast.environment.bounded_disk import glance
from holdfast.model.limits import MEMBERS_MAX, STORES_MAX

# Fewer heartbeats than this in the shortest election timeout, and one late packet deposes a leader.
HEARTBEATS_PER_ELECTION_MIN = 5
# Most of two are two.
MAJORITY_STORES_MIN = 3


def check_relations(check: Draft, *, has_secret: bool) -> None:
    """Report what does not fit together."""
    fields = check.node_settings()
    _check_members(fields, check)
    _check_placement(fields, check)
    _check_timing(check)
    _check_medium(fields, check)
    _check_directory(fields, check)
    _check_listening(fields, check)
    _check_logins(check)
    peers = fields.peers or (own.address if (own := own_member(fields)) else None)
    check.require(
        peers is None or peers.is_loopback or has_secret or fields.secret_file is not None,
        "peers secret_file members",
        f"secret_file: missing; peers bound to {peers} can be reached from other machines,"
        " which needs a shared secret (--secret-file)",
    )


def _check_members(fields: NodeSettings, check: Draft) -> None:
    names = [member.name for member in fields.members]
    addresses = [str(member.address) for member in fields.members]
    check.require(
        len(names) <= MEMBERS_MAX,
        "members",
        f"members: {len(names)} members; allowed: at most {MEMBERS_MAX}",
    )
    for what, values in (("name", names), ("address", addresses)):
        for twice in sorted({value for value in values if values.count(value) > 1}):
            check.require(False, "members", f"members: the {what} {twice} is given twice")
    if not names:
        check.require(
            fields.peers is None,
            "members peers",
            "members: missing; with --peers give every member, this node too, as --member",
        )
        return
    check.require(
        fields.name in names,
        "name members",
        f"name: {fields.name} is not among the members ({', '.join(names)})",
    )
    check.require(
        any(member.kind == "voter" for member in fields.members),
        "members",
        "members: none of them is a voter that holds data",
    )
    own = own_member(fields)
    check.require(
        own is None or not (own.site and fields.site) or own.site == fields.site,
        "site members",
        f"site: {fields.site} here, but {own.site if own else ''} in the list of members",
    )


def _check_medium(fields: NodeSettings, check: Draft) -> None:
    """A log is kept in one way, and only brokers over one log elect."""
    check.require(
        fields.elector is None or bool(fields.store) or fields.shared is not None,
        "elector store shared",
        "elector: it elects among brokers over one log, which needs --store or --shared",
    )
    check.require(
        check.value("databases.confirm") == "all" or len(fields.store) >= MAJORITY_STORES_MIN,
        "store_confirm store",
        f"store_confirm: majority needs --store {MAJORITY_STORES_MIN} times or more: most of"
        f" {len(fields.store)} would be all of them",
    )
    shown = check.value("lease.sql_messages")
    check.require(
        shown == "off" or (bool(fields.store) and fields.shared is None),
        "sql_messages store shared",
        f"sql_messages: {shown} shows messages in the database of the log, which needs a --store",
    )
    if not fields.store and fields.shared is None:
        return
    given = "store" if fields.store else "shared"
    check.require(
        not fields.store or fields.shared is None,
        "store shared",
        "store: a log is kept in a database or in a shared directory, not in both",
    )
    check.require(
        not fields.members,
        f"{given} members",
        f"{given}: brokers over one log have no members; leave out --member and --peers",
    )
    check.require(
        len(fields.store) <= STORES_MAX,
        "store",
        f"store: {len(fields.store)} databases; allowed: at most {STORES_MAX}",
    )


def _check_placement(fields: NodeSettings, check: Draft) -> None:
    keeping = [member for member in place_own(fields, own_member(fields)) if member.keeps_log]
    count = sum(it.kind == "voter" for it in keeping) if fields.members else 1
    copies, sites = check.value("replication.copies"), check.value("replication.sites")
    check.require(
        copies <= count,
        "copies members",
        f"copies: {copies} is more than the voters with data; allowed: 1 to {count}",
    )
    places = max(1, len({member.site for member in keeping}))
    check.require(
        sites <= places,
        "sites site members",
        f"sites: {sites} is more than the distinct sites of the members that keep the log;"
        f" allowed: 1 to {places}",
    )
    unplaced = [member.name for member in keeping if not member.site]
    check.require(
        sites == 1 or not unplaced,
        "sites site members",
        f"sites: {sites} asked for, but no site is given for: {', '.join(unplaced)}",
    )
    check.require(
        not copies or sites <= copies,
        "copies sites",
        f"copies: {copies} copies cannot stand on {sites} sites; allowed: {sites} or more",
    )


def _check_timing(check: Draft) -> None:
    shortest = check.value("replication.election_seconds_min")
    longest = check.value("replication.election_seconds_max")
    least = HEARTBEATS_PER_ELECTION_MIN * check.value("replication.heartbeat_seconds")
    check.require(
        shortest >= least,
        "heartbeat_seconds election_seconds_min",
        f"election_seconds_min: {shortest:g} is less than"
        f" {HEARTBEATS_PER_ELECTION_MIN} heartbeats; allowed: {least:g} or more",
    )
    # Equal bounds would make all followers stand at once, again and again.
    least = 1.2 * shortest
    check.require(
        longest >= least,
        "election_seconds_min election_seconds_max",
        f"election_seconds_max: {longest:g} leaves no room to differ from"
        f" election_seconds_min; allowed: {least:g} or more",
    )


def _check_directory(fields: NodeSettings, check: Draft) -> None:
    for directory in (fields.data, *check.mirrors):
        try:
            is_usable = _is_directory_or_none(directory)
            why = "is not a directory"
        except OSError as error:
            # Of several mirrors one may be on a disk that failed: the others go on.
            is_usable = bool(check.mirrors)
            why = f"cannot be looked at: {(error.strerror or '').lower()}"
        check.require(is_usable, "data", f"data: {shown_path(directory)} {why}")
    check.require(
        not check.mirrors or not (fields.shared or fields.store),
        "data shared store",
        "data: several directories hold the same log, and with --shared or --store there is none in"
        " them; allowed: one",
    )
    ports = (fields.stomp, fields.admin, fields.peers, *(it.address for it in fields.listen))
    given = [str(address) for address in ports if address]
    fixed = [address for address in given if not address.endswith(":0")]
    for twice in sorted({address for address in fixed if fixed.count(address) > 1}):
        check.require(
            False,
            "stomp admin peers listen",
            f"stomp, listen, admin, peers: two of them are bound to {twice}",
        )


def _is_directory_or_none(directory: Path) -> bool:
    """Whether it may be used; of one that does not answer the start tells, once it can speak."""
    return glance(lambda: not directory.exists() or directory.is_dir(), otherwise=True)


def _check_listening(fields: NodeSettings, check: Draft) -> None:
    for port in fields.listen:
        check.require(
            not port.tls or port.tls in check.tls,
            "listen",
            f"listen: {port.address} is to go by [tls.{port.tls}], and the file has no such table",
        )
    peers = check.tls.get(PEERS_TABLE)
    check.require(
        fields.peer_tls == "off" or (peers is not None and peers.client == "required"),
        "peer_tls",
        f"peer_tls: {fields.peer_tls} needs a table [tls.{PEERS_TABLE}] in the file, with"
        f" certificate, client_ca and client = 'required'",
    )
    check.require(
        not fields.admin_tls or fields.admin_tls in check.tls,
        "admin_tls",
        f"admin_tls: the admin port is to go by [tls.{fields.admin_tls}], and the file has no such"
        f" table",
    )


def _check_logins(check: Draft) -> None:
    check.require(
        not check.value("server.scram") or not check.authorities.directories,
        "scram",
        "scram: users of a directory ([ldap.…]) show passwords that only the directory knows, so"
        " SCRAM could never be offered; leave out one of them",
    )


def own_member(fields: NodeSettings) -> MemberConfig | None:
    """The member that is this node, if it is one of them."""
    return next((member for member in fields.members if member.name == fields.name), None)


def place_own(fields: NodeSettings, own: MemberConfig | None) -> tuple[MemberConfig, ...]:
    """The members, with --site filled in for this node where the list has none for it."""
    if own is None or own.site or not fields.site:
        return fields.members
    placed = MemberConfig(own.name, own.address, own.kind, fields.site)
    return tuple(placed if member is own else member for member in fields.members)
