"""
Gives the addresses that the sources of a `discovery:` URI know of, for each pass anew.

DNS is asked in a thread, one at a time for each name, once the last answer's time is over. Whoever
knows of addresses already goes on with them after a moment; what comes later counts from the next
pass on, so a nameserver that is away keeps nobody from a broker that is there.

Invariants:
    `find` returns within the time that connecting may take.
    Of each name at most one question is under way, whoever gives up meanwhile.
    At most CANDIDATES_MAX addresses are given.

Owned by the dialer of one connection; all but `ask` runs on its loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Sequence
from dataclasses import replace

from holdfast.client.address import Address
from holdfast.client.discovered import DnsSource, Source
from holdfast.client.failover import FailoverOptions
from holdfast.client.settings import ClientSettings
from holdfast.discovery.candidates import CANDIDATES_MAX, Answer, Candidates, NoAnswer, in_order
from holdfast.discovery.opening import LookUp, open_dns
from holdfast.environment.randomness import Randomness

PATIENCE_SECONDS = 0.25
"""So long an answer is waited for by who knows of addresses already; a nameserver nearby takes a
hundredth of it."""

_LOOKUP_SHARE = 0.8
"""Of the time for connecting: that nobody answered is then told before it is over. dnspython rests
before it gives up, for a few tenths of a second."""

logger = logging.getLogger("holdfast.client")


class _Asked:
    """One name, and what DNS has told of it."""

    def __init__(self, source: DnsSource, seconds: float) -> None:
        self.source = source
        self.seconds = source.template.connect_seconds_max or seconds
        self.candidates = Candidates()
        self.pending: asyncio.Future[None] | None = None
        """Done once the question under way has its outcome."""

        self.said = ""
        """What was warned of last."""


class Finder:
    """See the module's docstring."""

    def __init__(
        self,
        sources: Sequence[Source],
        options: FailoverOptions,
        settings: ClientSettings,
        randomness: Randomness,
        look_up: LookUp | None = None,
    ) -> None:
        """
        Nothing is asked before `find`.

        Args:
            look_up: What asks; None: DNS.

        Raises:
            ConfigError: A name is to be asked for, and the package that does so is not installed.
        """
        self._loop = asyncio.get_running_loop()
        self._uniform = randomness.uniform
        self._is_randomized = options.is_randomized
        seconds = settings.connect_seconds_max
        self._sources = [_Asked(it, seconds) if isinstance(it, DnsSource) else it for it in sources]
        self._asked = [it for it in self._sources if isinstance(it, _Asked)]
        self._seconds_max = max((it.seconds for it in self._asked), default=seconds)
        self._look_up = look_up or (open_dns() if self._asked else _asks_nobody)
        self._too_many = 0

    @property
    def problems(self) -> list[str]:
        """Why sources have nothing, or nothing new, a sentence each."""
        return [
            f"{it.source}: {it.candidates.problem}" for it in self._asked if it.candidates.problem
        ]

    async def find(self) -> list[Address]:
        """
        Give what is known, in the order in which to try it; ask again whom it is time to ask.

        Cancelling gives up waiting; what is under way counts when it comes.
        """
        is_known = self._is_anything_known
        until = self._loop.time() + (PATIENCE_SECONDS if is_known else self._seconds_max)
        now = self._loop.time() if is_known else await self._rest(until)
        due = [it for it in self._asked if it.pending is None and it.candidates.is_due(now)]
        for asked in due:
            self._ask(asked)
        awaited = due if is_known else self._asked
        while pending := {it.pending for it in awaited if it.pending is not None}:
            rest = until - self._loop.time()
            if rest <= 0 or (not is_known and self._is_anything_known):
                break
            await asyncio.wait(pending, timeout=rest, return_when=asyncio.FIRST_COMPLETED)
        return self._addresses()

    @property
    def _is_anything_known(self) -> bool:
        return any(it.candidates.known if isinstance(it, _Asked) else it for it in self._sources)

    async def _rest(self, until: float) -> float:
        """
        Wait until somebody may be asked again: passes over nothing have nothing else to do.

        Gives what time it is then.
        """
        if any(it.pending is not None for it in self._asked):
            return self._loop.time()
        due_at = min((it.candidates.due_at for it in self._asked), default=0.0)
        rested_at = min(due_at, until)
        await asyncio.sleep(rested_at - self._loop.time())
        # A loop may wake up a little too early; then nobody would be asked in this pass.
        return max(self._loop.time(), rested_at)

    def _ask(self, asked: _Asked) -> None:
        asked.pending = self._loop.create_future()
        question, seconds = asked.source.question, asked.seconds * _LOOKUP_SHARE

        def ask() -> None:
            outcome = self._look_up(question, seconds)
            with contextlib.suppress(RuntimeError):
                # The loop may have ended meanwhile.
                self._loop.call_soon_threadsafe(self._told, asked, outcome)

        try:
            threading.Thread(target=ask, name="holdfast-discovery", daemon=True).start()
        except RuntimeError as error:
            self._told(asked, NoAnswer(f"no thread could be started to ask: {error}"))

    def _told(self, asked: _Asked, outcome: Answer | NoAnswer) -> None:
        pending, asked.pending = asked.pending, None
        assert pending is not None, "asked once at a time"
        if not pending.done():
            pending.set_result(None)
        candidates = asked.candidates
        candidates.take(outcome, self._loop.time())
        logger.debug("%s: %d candidates", asked.source, len(candidates.known))
        said = candidates.problem or "; ".join(candidates.remarks)
        if said and said != asked.said:
            kept = len(candidates.known) if candidates.problem else 0
            more = f" (the {kept} candidates of before are kept)" if kept else ""
            logger.warning("%s: %s%s", asked.source, said, more)
        asked.said = said

    def _addresses(self) -> list[Address]:
        found: dict[Address, None] = {}
        for source in self._sources:
            found |= dict.fromkeys(
                self._found_by(source) if isinstance(source, _Asked) else self._mixed(source)
            )
        too_many = max(0, len(found) - CANDIDATES_MAX)
        if too_many > self._too_many:
            logger.warning(
                "discovery: of %d addresses the first %d are used", len(found), CANDIDATES_MAX
            )
        self._too_many = too_many
        return list(found)[:CANDIDATES_MAX]

    def _found_by(self, asked: _Asked) -> list[Address]:
        uniform = self._uniform if self._is_randomized else None
        return [
            replace(
                asked.source.template,
                host=it.host,
                port=it.port,
                name="" if it.name == it.host else it.name,
            )
            for it in in_order(asked.candidates.known, uniform)
        ]

    def _mixed(self, addresses: tuple[Address, ...]) -> list[Address]:
        if not self._is_randomized:
            return list(addresses)
        keys = {address: self._uniform(0, 1) for address in addresses}
        return sorted(addresses, key=keys.__getitem__)


def _asks_nobody(*_: object) -> NoAnswer:
    raise AssertionError("there is no name to ask for")
