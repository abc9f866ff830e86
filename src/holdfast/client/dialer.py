"""
Opens links: asks the failover plan where to turn, and the term fence whom to believe.

One loop, told by the pure plan what to do next. For a plain URI there is one attempt, and its own
error is raised; for a failover URI every failure is another attempt, until the plan is exhausted.
Some failures do not pass by themselves (a wrong passcode, a certificate nobody trusts, a file that
is not there): each is warned of at once, and when every address has said so before the first
connection, it is raised.

Owned by the session of one connection.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Final, TypeAlias

from holdfast.client.address import Address
from holdfast.client.failover import (
    NO_PROMOTION,
    TERM_DOUBT_SECONDS,
    Attempt,
    Exhausted,
    FailoverOptions,
    FailoverPlan,
    Find,
    Pause,
    TermFence,
)
from holdfast.client.finder import Finder
from holdfast.client.link import Link, LinkOwner, open_link
from holdfast.client.settings import ClientSettings
from holdfast.client.tls_failures import NO_TLS, TLS_REQUIRED
from holdfast.client.uri import Target
from holdfast.environment.randomness import Randomness
from holdfast.errors import (
    AuthenticationError,
    CertificateError,
    ConfigError,
    FailoverExhaustedError,
    LinkError,
    LinkLostError,
    ProtocolError,
    RemoteProtocolError,
)
from holdfast.model.digits import read_digits

ConnectError: TypeAlias = LinkError | ProtocolError | ConfigError

_PROMOTION: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")
_LASTING_CODES: Final = {"version", NO_TLS, TLS_REQUIRED}
_TOLD_COUNT_MAX: Final = 10
"""So many addresses of a pass stand in a warning; DNS may name any number."""

logger = logging.getLogger("holdfast.client")

NO_FAILOVER = FailoverOptions(reconnect_attempts_max=0, is_randomized=False)


class Dialer:
    """The way of one connection from broker to broker."""

    def __init__(self, target: Target, settings: ClientSettings, randomness: Randomness) -> None:
        self.has_failover = target.failover is not None
        self.options = target.failover or NO_FAILOVER
        self.fence = TermFence()
        self.shown = ""
        """By what brokers know again whose connections these are."""

        self._settings = settings
        self._addresses_count = len(target.addresses)
        self._finder = Finder(target.sources, self.options, settings, randomness)
        self._verdicts: dict[Address, ConnectError] = {}
        """What addresses have said that will not pass."""
        self._refused: dict[Address, str] = {}
        """Why brokers that answered were not believed, as it was warned of."""

        self._loop = asyncio.get_running_loop()
        self._plan: FailoverPlan[Address] = FailoverPlan(
            target.addresses,
            self.options,
            randomness.uniform,
            eager_seconds=settings.eager_reconnect_seconds,
            eager_pause_seconds_max=settings.eager_reconnect_pause_seconds_max,
            finds=bool(target.sources),
        )

    async def open(self, owner: LinkOwner) -> Link:
        """
        Open a link to a broker that may be believed. Cancelling gives up.

        Raises:
            FailoverExhaustedError: No address of a failover URI answered within the attempts.
            LinkError, ProtocolError, ConfigError: What became of the one attempt at a plain URI, or
                what every address of a failover URI has said that will not pass.
        """
        failures: dict[Address, ConnectError] = {}
        while True:
            step = self._plan.next_step(self._loop.time())
            if isinstance(step, Attempt):
                try:
                    return await self._attempt(step.address, owner)
                except (LinkError, ProtocolError, ConfigError) as error:
                    failures.pop(step.address, None)
                    failures[step.address] = error
                    self._failed(step.address, error, failures)
            elif isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
            elif isinstance(step, Find):
                self._found(await self._finder.find(), failures)
            elif failures and not self.has_failover:
                raise next(iter(failures.values()))
            else:
                raise _exhausted(step, [*self._finder.problems, *map(str, failures.values())])

    def _found(self, addresses: list[Address], failures: dict[Address, ConnectError]) -> None:
        """Try these in the pass that begins; what others have said does not count any more."""
        for said in (failures, self._verdicts, self._refused):
            for address in said.keys() - set(addresses):
                del said[address]
        self._addresses_count = len(addresses)
        self._plan.found(addresses)
        if not addresses:
            self._warn_of_passes("; ".join(self._finder.problems))

    def lost(self, address: Address, *, was_useful: bool) -> None:
        """An established link broke, after it brought something or before."""
        self._plan.link_lost(address, self._loop.time(), was_useful=was_useful)

    async def _attempt(self, address: Address, owner: LinkOwner) -> Link:
        link = await open_link(
            address, owner, self._settings, term=self.fence.term, shown=self.shown
        )
        cluster = link.greeting.get("holdfast-cluster")
        told = cluster, term_of(link), promotion_of(link)
        refusal = self.fence.refusal(*told, now=self._loop.time())
        if refusal is not None:
            error = LinkLostError(f"{address} is not used: {refusal}")
            link.abort(error)
            if str(error) != self._refused.get(address):
                self._refused[address] = str(error)
                logger.warning("%s", error)
            raise error
        if self.fence.dropped_term is not None:
            logger.warning(
                "%s leads term %d and has done so for %d s: a leader of term %d, of which was heard"
                " before, is none",
                *(address, self.fence.term, TERM_DOUBT_SECONDS, self.fence.dropped_term),
            )
        if link.is_closed:
            raise LinkLostError(f"{address} closed the connection at once")
        self._plan.connected(address)
        self._verdicts.clear()
        self._refused.clear()
        return link

    def _failed(
        self, address: Address, error: ConnectError, failures: dict[Address, ConnectError]
    ) -> None:
        logger.debug("connecting failed: %s", error)
        if self.has_failover:
            self._judge(address, error)
        passes = self._plan.failed_passes
        self._plan.attempt_failed(address)
        if self._plan.failed_passes > passes:
            last = list(map(str, failures.values()))
            self._warn_of_passes("; ".join(last[-_TOLD_COUNT_MAX:]))

    def _warn_of_passes(self, last: str) -> None:
        if self._plan.is_warning_due:
            passes = self._plan.failed_passes
            logger.warning(
                "no broker found in %d passes over the addresses; last: %s", passes, last
            )

    def _judge(self, address: Address, error: ConnectError) -> None:
        if not is_lasting_failure(error):
            # An address that cannot be reached takes nothing back.
            if not isinstance(error, LinkLostError):
                self._verdicts.pop(address, None)
            return
        if str(error) != str(self._verdicts.get(address)):
            logger.warning("this will not pass by itself: %s", error)
        self._verdicts[address] = error
        if self._plan.is_startup and len(self._verdicts) == self._addresses_count:
            for other in self._verdicts.values():
                if other is not error:
                    error.add_note(str(other))
            raise error


def is_lasting_failure(error: ConnectError) -> bool:
    """Whether trying again later would bring the same."""
    if isinstance(error, RemoteProtocolError):
        return error.code in _LASTING_CODES
    return isinstance(error, AuthenticationError | CertificateError | ConfigError | ProtocolError)


def _exhausted(step: Exhausted, reasons: list[str]) -> FailoverExhaustedError:
    if not reasons:
        return FailoverExhaustedError("the link is lost, and the URI allows no reconnecting")
    return FailoverExhaustedError(
        f"no broker answered in {step.passes} passes over the addresses: {'; '.join(reasons)}"
    )


def term_of(link: Link) -> int | None:
    """The broker's term, where it tells one."""
    return read_digits(link.greeting.get("holdfast-term", ""))


def promotion_of(link: Link) -> tuple[int, int]:
    """By which promotion by force the broker's cluster goes on, where it tells one."""
    found = _PROMOTION.fullmatch(link.greeting.get("holdfast-promotion", ""))
    return (int(found[1]), int(found[2])) if found else NO_PROMOTION
