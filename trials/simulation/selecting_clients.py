"""
Clients of a simulated world that want some messages of a queue and not others.

Each message says a colour; two of three consumers want one kind each, the third what the others
leave. What they are told and get is judged as of all others, in each one's order; and all of it is
delivered in the end, though none of them would take it alone.

The same with messages in groups, of which whoever wants some gets no more than that, and nobody has
any while somebody else does (`group_clients`): one of four wants all.

Invariants (each violation is raised with its name):
    M6: nobody gets what he did not ask for, by what was sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trials.simulation.group_clients import GroupConsumer, GroupProducer
from trials.simulation.history import ViolationError
from trials.simulation.workload import Consumer, Producer

if TYPE_CHECKING:
    from trials.simulation.simulator import Simulation

SELECTED: Final = "consumers select"
SELECTED_GROUPS: Final = "consumers select from groups"
CHOSEN: Final = "a message was chosen"
_QUEUE: Final = "selected"
_COLOURS: Final = ("red", "green", "blue", "grey")
_SIZE_MAX: Final = 150
_PAUSE_SECONDS: Final = 0.2
"""So long each may keep what it has: its window is small, and the others wait."""
WANTED: Final = (
    ("color = 'red'", frozenset({"red"})),
    ("color LIKE 'gr%'", frozenset({"green", "grey"})),
    ("color <> 'red' AND color NOT LIKE '%y'", frozenset({"green", "blue"})),
)
"""Selectors, and the colours that they mean."""


class SelectedProducer(Producer):
    """Sends to one queue, of all colours."""

    def __init__(self, world: Simulation, name: str) -> None:
        count = max(80, world.plan.operations // 8)
        super().__init__(world, name, queues=[_QUEUE], count=count, is_numbered=True)

    def _make(self, number: int) -> tuple[str, bytes]:
        token = f"{self.name}.{number}"
        colour = _COLOURS[self.chance.randrange(len(_COLOURS))]
        filler = b"x" * self.chance.randrange(_SIZE_MAX)
        body = b"%b %b %b" % (token.encode(), colour.encode(), filler)
        self.world.history.send(token, _QUEUE, body)
        line = b"color:" + colour.encode()
        return token, self._numbered(number, f"/queue/{_QUEUE}", body, line)


class SelectingConsumer(Consumer):
    """Wants what one of the selectors says."""

    def __init__(self, world: Simulation, name: str, number: int) -> None:
        super().__init__(world, name, queue=_QUEUE, mode="client-individual", prefetch=3)
        self.death_chance = 0.1
        self.pause_seconds = _PAUSE_SECONDS
        self._selector, self._colours = WANTED[number % len(WANTED)]

    def subscription_lines(self) -> list[bytes]:
        """Say what it wants."""
        return [b"selector:" + self._selector.encode()]

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Look with each delivery whether it was asked for."""
        if command == b"MESSAGE":
            self.world.count(CHOSEN)
            _check_chosen(self.name, self._selector, self._colours, body)
        super().frame(command, headers, body, at)


def _check_chosen(name: str, selector: str, colours: frozenset[str], body: bytes) -> None:
    colour = body.split(b" ", 2)[1].decode()
    if colour not in colours:
        raise ViolationError("M6", f"{name} got {colour}: {selector}")


class PickyGroupProducer(GroupProducer):
    """Sends messages of all colours in groups."""

    def _kind(self) -> tuple[bytes, ...]:
        colour = _COLOURS[self.chance.randrange(len(_COLOURS))].encode()
        return colour + b" ", b"color:" + colour


class PickyGroupConsumer(GroupConsumer):
    """Wants what one of the selectors says of each group, or all."""

    def __init__(self, world: Simulation, name: str, number: int) -> None:
        super().__init__(world, name)
        self.pause_seconds = _PAUSE_SECONDS
        selector, self._colours = (*WANTED, ("", frozenset(_COLOURS)))[number % (len(WANTED) + 1)]
        self.selector = selector

    def subscription_lines(self) -> list[bytes]:
        """Say what it wants."""
        return [b"selector:" + self.selector.encode()] if self.selector else []

    def frame(self, command: bytes, headers: dict[bytes, bytes], body: bytes, at: float) -> None:
        """Look with each delivery whether it was asked for."""
        if command == b"MESSAGE":
            self.world.count(CHOSEN)
            _check_chosen(self.name, self.selector, self._colours, body)
        super().frame(command, headers, body, at)
