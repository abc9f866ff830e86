"""
Several who work on one place at once, in an order that a seed decides, and that may be killed.

Whoever works runs in a thread of its own, and one of them at a time: before each thing that it does
to the place it waits for its turn. Killed, it does nothing more, not even what it does when it
fails, as a process that is gone. So a seed tells again what went wrong.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any, Final
from unittest import mock

from holdfast.spark.archive.places import Place

STEPS: Final = ("files", "open_input", "write_durable", "publish", "move", "remove")
"""What others may see of a place, or see the effects of."""


class Killed(BaseException):
    """This one is gone."""


class Interleaved:
    """Runs each of these until it ends or is killed."""

    def __init__(self, seed: int, *, kills_share: float = 0.0) -> None:
        self._random = Random(seed)  # noqa: S311 - a schedule, no secret
        self._kills_share = kills_share
        self._stays = self._random.choice((0.2, 0.8, 0.95))
        """How often who has its turn has the next one, too: others stand still for long then."""
        self._changed = threading.Condition()
        self._turn = ""
        self._alive: set[str] = set()
        self._killed: set[str] = set()
        self.ended: dict[str, Any] = {}
        """What each gave or raised; of those that were killed nothing."""
        self.steps: list[str] = []
        """Who did what, in this order."""

    def run(self, works: Mapping[str, Callable[[], object]]) -> None:
        """Run them; returns when the last one has ended."""
        threads = [
            threading.Thread(target=self._one, args=each, name=each[0]) for each in works.items()
        ]
        self._alive = set(works)
        with _told_steps(self._step):
            for thread in threads:
                thread.start()
            with self._changed:
                self._give_turn("")
            for thread in threads:
                thread.join()

    def _one(self, name: str, work: Callable[[], object]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._turn == name)
        try:
            self.ended[name] = work()
        except Killed:
            pass
        except Exception as error:  # noqa: BLE001 - whoever asked for it looks
            self.ended[name] = error
        with self._changed:
            self._alive.remove(name)
            self._give_turn(name)

    def _give_turn(self, before: str) -> None:
        if before in self._alive and self._random.random() < self._stays:
            return
        self._turn = self._random.choice(sorted(self._alive)) if self._alive else ""
        self._changed.notify_all()

    def _step(self, what: str) -> None:
        name = threading.current_thread().name
        if name not in self._alive:
            return  # a thread of somebody's, which waits for it
        if name in self._killed:
            raise Killed
        with self._changed:
            self._give_turn(name)
            self._changed.wait_for(lambda: self._turn == name)
            if self._random.random() < self._kills_share:
                self._killed.add(name)
                self.steps.append(f"{name} is killed before: {what}")
                raise Killed
            self.steps.append(f"{name}: {what}")


@contextmanager
def _told_steps(step: Callable[[str], None]) -> Iterator[None]:
    """Call this before each step of anybody's."""

    def telling(name: str, original: Any) -> Any:
        @functools.wraps(original)
        def call(self: Place, *arguments: Any, **options: Any) -> Any:
            words = (str(each) for each in arguments if isinstance(each, str))
            step(" ".join((name, *words)))
            return original(self, *arguments, **options)

        return call

    with mock.patch.multiple(Place, **{it: telling(it, getattr(Place, it)) for it in STEPS}):
        yield
