"""
What is asked of a database, but for the append: the same text for every dialect.

Names of values stand as `:name`; a dialect writes them as its driver wants them. Whatever writes
under the lease says so in its own WHERE: a read before it would be no fence.

Source: "Stores and fenced leases", sections 7.3 and 7.4.
"""

from __future__ import annotations

from typing import Final

READ_META: Final = "SELECT format, store_id, member_id FROM holdfast_meta WHERE id = 1"
INSERT_META: Final = (
    "INSERT INTO holdfast_meta (id, format, store_id, member_id)"
    " VALUES (1, :format, :store_id, :member_id)"
)
READ_MARK: Final = "SELECT member_id FROM holdfast_meta WHERE id = 2"
INSERT_MARK: Final = (
    "INSERT INTO holdfast_meta (id, format, store_id, member_id)"
    " VALUES (2, :format, :store_id, :mark)"
)
"""Of which source, as it was then, a copy is made; gone once it is whole."""

READ_CLUSTER: Final = "SELECT member_id FROM holdfast_meta WHERE id = 3"
INSERT_CLUSTER: Final = (
    "INSERT INTO holdfast_meta (id, format, store_id, member_id)"
    " VALUES (3, :format, :store_id, :cluster)"
)
"""In which cluster of Galera the database is, so that a node that has left it is known as one."""

READ_SERVER: Final = "SELECT member_id FROM holdfast_meta WHERE id = 4"
INSERT_SERVER: Final = (
    "INSERT INTO holdfast_meta (id, format, store_id, member_id)"
    " VALUES (4, :format, :store_id, :server)"
)
"""On which server, of several hosts, the log is written, and how often that was promoted."""

DROP_SERVER: Final = "DELETE FROM holdfast_meta WHERE id = 4"
DROP_CLUSTER: Final = "DELETE FROM holdfast_meta WHERE id = 3"
DROP_MARK: Final = "DELETE FROM holdfast_meta WHERE id = 2"
MAKE_WHOLE: Final = "UPDATE holdfast_meta SET format = :format WHERE id = 1 AND format = :copying"
INSERT_LEASE: Final = (
    "INSERT INTO holdfast_lease (id, epoch, beat, holder, name, address, stomp,"
    " lease_ms, released, last_index, last_chain, first_index, renewed_at, event, members)"
    " VALUES (1, 0, 0, :nobody, '', '', '', 0, 0, 0, :no_chain, 1, 0, 0, '')"
)
READ_LEASE: Final = (
    "SELECT epoch, beat, holder, name, address, stomp, lease_ms, released, last_index,"
    " last_chain, first_index FROM holdfast_lease WHERE id = 1"
)
READ_AGE: Final = "SELECT epoch, beat, renewed_at FROM holdfast_lease WHERE id = 1"
"""What grows with whatever is written under the lease; the time is that of its writer's clock."""

TAKE: Final = (
    "UPDATE holdfast_lease SET epoch = epoch + 1, beat = beat + 1, holder = :holder, name = :name,"
    " address = :address, stomp = :stomp, lease_ms = :lease_ms, released = 0,"
    " renewed_at = :at"
    " WHERE id = 1 AND epoch = :epoch AND beat = :beat AND holder = :was"
)
"""
On the condition of whose it was as well: an address that leads to a copy by now, which others went
on with, may have come to the same epoch and beat there.
"""

TAKE_ALONE: Final = f"{TAKE} AND members = ''"
"""Of a database that is the only one."""

READ_MEMBERS: Final = "SELECT members FROM holdfast_lease WHERE id = 1"
HELD: Final = "id = 1 AND epoch = :epoch AND holder = :holder AND released = 0"
"""Whether the lease is ours still."""

_LATER: Final = "renewed_at = CASE WHEN renewed_at < :at THEN :at ELSE renewed_at END"
"""Of what arrives late the time is older: set back, the database would look like one that was."""

RENEW: Final = f"UPDATE holdfast_lease SET beat = beat + 1, {_LATER} WHERE {HELD}"
RELEASE: Final = f"UPDATE holdfast_lease SET beat = beat + 1, released = 1 WHERE {HELD}"
ADVANCE: Final = (
    "UPDATE holdfast_lease SET last_index = :last, last_chain = :chain, beat = beat + 1,"
    f" {_LATER} WHERE {HELD} AND last_index = :before AND last_chain = :behind"
)
"""
The fence of an append. The chain stands for all that came before: what follows on another history,
as in a copy of the database that others went on with, is stored behind none.
"""

BEGIN_BEHIND: Final = (
    "UPDATE holdfast_lease SET epoch = :epoch, last_index = :last, last_chain = :chain,"
    " first_index = :first WHERE id = 1"
)
"""Of a lease row that was just inserted: where a copy begins."""

FINISH_COPY: Final = (
    "UPDATE holdfast_lease SET beat = beat + 1, released = 1"
    f" WHERE {HELD} AND last_index = :last AND last_chain = :chain"
)
INSERT_ENTRY: Final = (
    "INSERT INTO holdfast_entries (idx, part, term, first_record, record_count, bytes, stored_at,"
    " raw) VALUES (:idx, :part, :term, :first_record, :record_count, :size, :stored_at, :raw)"
)
"""Of an anchor only: it is fenced by nothing."""

CLEAN: Final = (
    f"UPDATE holdfast_lease SET beat = beat + 1, {_LATER},"
    " first_index = CASE WHEN first_index < :first THEN :first ELSE first_index END"
    f" WHERE {HELD} AND last_index >= :first - 1"
)
DELETE: Final = "DELETE FROM holdfast_entries WHERE idx < :first"

READ_SIZES: Final = (
    "SELECT idx, bytes FROM holdfast_entries"
    " WHERE idx > :after AND idx <= :through AND part = 0 ORDER BY idx LIMIT :count"
)
READ_PARTS: Final = (
    "SELECT idx, part, raw FROM holdfast_entries"
    " WHERE idx > :after AND idx <= :through ORDER BY idx, part"
)
READ_PIECE: Final = (
    "SELECT SUBSTR(raw, :first, :count) FROM holdfast_entries WHERE idx = :index AND part = :part"
)
"""Bytes of one row, counted from one on, as every dialect counts them."""

READ_ENDS: Final = (
    "SELECT last_index, first_index, (SELECT MAX(idx) FROM holdfast_entries)"
    " FROM holdfast_lease WHERE id = 1"
)
READ_FIRST: Final = "SELECT MIN(idx) FROM holdfast_entries"

TELL_AGAIN: Final = (
    "UPDATE holdfast_brokers SET holder = :holder, address = :address, stomp = :stomp,"
    " known_level = :known_level, beat = :beat, applied_index = :applied_index WHERE name = :name"
)
TELL_FIRST: Final = (
    "INSERT INTO holdfast_brokers (name, holder, address, stomp, known_level, beat, applied_index)"
    " VALUES (:name, :holder, :address, :stomp, :known_level, :beat, :applied_index)"
)
READ_BROKERS: Final = (
    "SELECT name, holder, address, stomp, known_level, beat, applied_index"
    " FROM holdfast_brokers ORDER BY name"
)
SHOW: Final = f"{RENEW} AND last_index = :last"
"""The fence of what is shown: one that comes late, behind another append, changes nothing."""

SHOW_QUEUE_DROPPED: Final = "DELETE FROM holdfast_queues WHERE number = :number"
SHOW_QUEUES_STALE: Final = "DELETE FROM holdfast_queues WHERE as_of_index < :before"
SHOW_MESSAGES_STALE: Final = "DELETE FROM holdfast_messages WHERE"
"""Followed by `SPAN`, for each that goes."""

SPAN: Final = "queue_number = :queue{0} AND sequence BETWEEN :first{0} AND :last{0}"
SHOW_SUBSCRIPTION_ENDED: Final = "DELETE FROM holdfast_subscriptions WHERE number = :number"
SHOW_SUBSCRIPTIONS_STALE: Final = "DELETE FROM holdfast_subscriptions WHERE as_of_index < :before"
READ_KEYS: Final = (
    "SELECT queue_number, sequence FROM holdfast_messages"
    " WHERE queue_number = :queue AND sequence > :after ORDER BY queue_number, sequence LIMIT :most"
)
READ_KEYS_FURTHER_ON: Final = (
    "SELECT queue_number, sequence FROM holdfast_messages"
    " WHERE queue_number > :queue ORDER BY queue_number, sequence LIMIT :most"
)
FORGET: Final = "DELETE FROM holdfast_brokers WHERE name = :name"
