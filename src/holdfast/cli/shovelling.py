"""
The work behind `holdfast shovel`: from one broker to another one, which may be of another make.

A message is taken, sent on, and acknowledged once the other broker has said that it has it: at
least once, whatever is killed. Where it may come twice it says so by `possible-duplicate:true`. Of
a broker whose message ids stand for ever, what was stored and comes again is only acknowledged.

Invariants:
    What is acknowledged was confirmed by the target before.
    What stays is neither acknowledged nor rejected: it goes back when the shovel leaves.
    At most `WINDOW` messages are under way of each route. Their order is kept, but for what finds
    no room at first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.cli.message_progress import Tally
from holdfast.cli.shovel_rules import ACTIVEMQ, Route, Stay, carried, why_stays
from holdfast.client import Connection, Message, Subscription
from holdfast.client.wire import POSSIBLE_DUPLICATE
from holdfast.errors import (
    HoldfastError,
    LinkLostError,
    LocalProtocolError,
    QueueFullError,
    RefusedError,
    StoreFullError,
    UnknownDeliveryError,
)

logger = logging.getLogger("holdfast.cli")

WINDOW: Final = 200
"""Most messages of a route that are sent on and not acknowledged yet."""

STAYING_COUNT_MAX: Final = WINDOW
"""Of a route; each takes a place of the prefetch until the shovel leaves."""

PREFETCH: Final = WINDOW + STAYING_COUNT_MAX
KNOWN_COUNT_MAX: Final = 20_000
PAUSE_SECONDS: Final = (1.0, 30.0)
"""First and longest, where the target has no room."""

LOOK_SECONDS: Final = 0.25
"""How often it is looked whether to stop, while nothing comes."""

_MAY_PASS: Final = (QueueFullError, StoreFullError)


@dataclass
class RouteTally:
    """What became of one route's messages."""

    route: Route
    stored: int = 0
    doubtful: int = 0
    """Of those: said to be a possible duplicate."""

    known: int = 0
    """Came again after they were stored, and were only acknowledged."""

    staying: Counter[str] = field(default_factory=Counter)
    told: dict[str, str] = field(default_factory=dict)
    """By reason, of the first one."""

    @property
    def shown_target(self) -> str:
        """Where they go; empty: each to where it was."""
        return self.route.target or ("" if self.route.is_wild else self.route.source)

    @property
    def staying_count(self) -> int:
        """How many had to stay, for whatever reason."""
        return self.staying.total()

    def fields(self) -> dict[str, Any]:
        """For programs."""
        return {
            "source": self.route.source,
            "target": self.shown_target,
            "stored": self.stored,
            "doubtful": self.doubtful,
            "known": self.known,
            "staying": dict(self.staying),
        }


class Carrying:
    """One route, for as long as the two connections last."""

    def __init__(
        self, tally: RouteTally, source: Connection, target: Connection, *, takes_empty: bool
    ) -> None:
        self.tally = tally
        self._source = source
        self._target = target
        self._takes_empty = takes_empty
        self._known: OrderedDict[str, bool] = OrderedDict()
        """The last ids that were sent on, and whether the target has said that it has them."""

    async def carry(self, batch: list[Message]) -> None:
        """
        Carry these, in order; returns when what was stored is acknowledged.

        Raises:
            HoldfastError: A connection has ended, or too many messages have to stay.
        """
        going = [it for it in batch if not self._stays(it)]
        fresh = [(it, self._headers_of(it)) for it in going if not self._is_only_to_acknowledge(it)]
        for message, _ in fresh:
            self._note(message, is_stored=False)
        stored = {id(it) for it in going} - {id(it) for it, _ in fresh}
        pause, longest = PAUSE_SECONDS
        while fresh:
            outcomes = await asyncio.gather(*(self._send(it, said) for it, said in fresh))
            waiting = []
            for (message, headers), outcome in zip(fresh, outcomes, strict=True):
                if outcome is None:
                    self._note_stored(message, headers)
                    stored.add(id(message))
                elif isinstance(outcome, _MAY_PASS):
                    waiting.append((message, headers))
                elif isinstance(outcome, RefusedError | LocalProtocolError):
                    self._stay(message, Stay(outcome.code, str(outcome)))
                else:
                    raise outcome
            if waiting:
                logger.warning("the target has no room; trying again in %g s", pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
            fresh = waiting
        await self._acknowledge([it for it in going if id(it) in stored])

    def _headers_of(self, message: Message) -> dict[str, str]:
        return carried(
            message.headers,
            is_doubtful=self._is_doubtful(message),
            to_activemq=self._target.statistics().server.startswith(ACTIVEMQ),
        )

    async def _send(self, message: Message, headers: dict[str, str]) -> HoldfastError | None:
        target = self.tally.route.target_of(message.destination)
        try:
            await self._target.send(target, message.body, headers=headers)
        except HoldfastError as error:
            return error
        return None

    def _note_stored(self, message: Message, headers: dict[str, str]) -> None:
        self.tally.stored += 1
        self.tally.doubtful += POSSIBLE_DUPLICATE in headers
        self._note(message, is_stored=True)

    def _note(self, message: Message, *, is_stored: bool) -> None:
        if not self._has_lasting_ids:
            return
        self._known[message.id] = is_stored
        while len(self._known) > KNOWN_COUNT_MAX:
            self._known.popitem(last=False)

    @property
    def _has_lasting_ids(self) -> bool:
        """RabbitMQ names deliveries, and Artemis may name another message so after a restart."""
        is_holdfast = self._source.cluster is not None
        return is_holdfast or self._source.statistics().server.startswith(ACTIVEMQ)

    def _is_doubtful(self, message: Message) -> bool:
        """ActiveMQ forgets with its process what it had delivered, so its flag is not all."""
        return message.redelivered or message.id in self._known

    def _is_only_to_acknowledge(self, message: Message) -> bool:
        # Where it says nothing of an earlier delivery it may be one that somebody put there anew.
        is_known = message.redelivered and self._known.get(message.id, False)
        self.tally.known += is_known
        return is_known

    def _stays(self, message: Message) -> bool:
        stay = why_stays(
            message.headers,
            message.body,
            self.tally.route.target_of(message.destination),
            server=self._source.statistics().server,
            takes_empty=self._takes_empty,
        )
        if stay is not None:
            self._stay(message, stay)
        return stay is not None

    def _stay(self, message: Message, stay: Stay) -> None:
        tally = self.tally
        tally.staying[stay.reason] += 1
        if stay.reason not in tally.told:
            tally.told[stay.reason] = f"{message.id}: {stay.told}"
            logger.warning("stays on %s: %s", tally.route.source, tally.told[stay.reason])
        if tally.staying_count >= STAYING_COUNT_MAX:
            raise RefusedError(
                f"{STAYING_COUNT_MAX} messages have to stay on {tally.route.source}, and nothing"
                f" behind them would come any more: {'; '.join(tally.told.values())}"
            )

    async def _acknowledge(self, messages: list[Message]) -> None:
        """Tell the source that these are done; what it does not know any more comes again."""
        if not messages:
            return
        for message in messages:
            try:
                await message.acknowledge(confirm=message is messages[-1])
            except UnknownDeliveryError:
                continue
            except LinkLostError:
                if self._source.is_closed:
                    raise


class Limit:
    """How many messages may still be taken, over all routes."""

    def __init__(self, count: int | None) -> None:
        self._left = count

    def left(self) -> int:
        """So many."""
        return WINDOW if self._left is None else self._left

    def taken(self, count: int) -> None:
        """These are under way."""
        if self._left is not None:
            self._left -= count


class Shovelling:
    """One `holdfast shovel`."""

    def __init__(
        self,
        routes: list[Route],
        *,
        count: int | None,
        silence_seconds: float | None,
        durable: str | None,
        selector: str | None,
        transformation: str | None,
        takes_empty: bool,
    ) -> None:
        self.routes = [RouteTally(it) for it in routes]
        self.tally = Tally()
        self._limit = Limit(count)
        self._silence_seconds = silence_seconds
        self._durable = durable
        self._selector = selector
        self._transformation = transformation
        self._takes_empty = takes_empty
        self._stopping = asyncio.Event()

    @property
    def staying_count(self) -> int:
        """How many messages are still where they were, and had to be."""
        return sum(it.staying_count for it in self.routes)

    def stop(self) -> None:
        """Take no more; what is under way is done."""
        self._stopping.set()

    def fields(self) -> dict[str, Any]:
        """What became of it, for programs."""
        return {
            "carried": self.tally.count,
            "staying": self.staying_count,
            "seconds": round(self.tally.seconds, 3),
            "rate": round(self.tally.rate, 1),
            "routes": [it.fields() for it in self.routes],
        }

    async def run(self, source: Connection, target: Connection) -> None:
        """
        Carry until the count, the silence or `stop` ends it.

        Raises:
            HoldfastError: A broker refused, or a connection has ended.
        """
        self.tally.start()
        try:
            async with asyncio.TaskGroup() as group:
                for each in self.routes:
                    group.create_task(self._carry(each, source, target))
        except BaseExceptionGroup as errors:
            raise _first_of(errors) from None
        finally:
            self.tally.stop()

    async def _carry(self, tally: RouteTally, source: Connection, target: Connection) -> None:
        carrying = Carrying(tally, source, target, takes_empty=self._takes_empty)
        async with source.subscribe(
            tally.route.source,
            acknowledge="client-individual",
            prefetch=PREFETCH,
            selector=self._selector,
            durable=self._durable if tally.route.is_topic else None,
            headers={"transformation": self._transformation} if self._transformation else None,
        ) as subscription:
            while batch := await self._take(subscription, source):
                before = tally.stored + tally.known
                await carrying.carry(batch)
                self.tally.count += tally.stored + tally.known - before

    async def _take(self, subscription: Subscription, source: Connection) -> list[Message]:
        """As much as is here at once; nothing where it ends."""
        if self._limit.left() <= 0:
            return []
        first = await self._first(subscription, source)
        if first is None:
            return []
        left, batch = min(self._limit.left(), WINDOW), [first]
        while len(batch) < left and subscription.buffered_count:
            batch.append(await anext(subscription))
        self._limit.taken(len(batch))
        return batch

    async def _first(self, subscription: Subscription, source: Connection) -> Message | None:
        """The next message; None to stop, and after the silence asked for of who was there."""
        silent, most = 0.0, self._silence_seconds
        while not self._stopping.is_set() and (most is None or silent < most):
            links, look = source.statistics().link_count, min(LOOK_SECONDS, most or LOOK_SECONDS)
            message = await subscription.receive(look)
            if message is not None:
                return message
            was_there = source.address is not None and links == source.statistics().link_count
            silent = silent + look if was_there else 0.0
        return None


def _first_of(errors: BaseExceptionGroup[Any]) -> BaseException:
    """The first error that is none of several."""
    first: BaseException = errors.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first
