"""
How DNS is asked: the door to the package that not everybody has.

It is imported where one is used only, so that a client without it can say what it wants.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final, TypeAlias

from holdfast.discovery.candidates import Answer, NoAnswer
from holdfast.discovery.question import DnsQuestion
from holdfast.errors import ConfigError

MISSING = "dns: dnspython is not installed, which asks DNS: pip install 'holdfast[discovery]'"

_SECONDS_MIN: Final = 0.05

LookUp: TypeAlias = Callable[[DnsQuestion, float], "Answer | NoAnswer"]
"""Asks; blocks for so many seconds at most, and raises nothing."""


def open_dns() -> LookUp:
    """
    Give what asks DNS. It is loaded when it is first called: that takes a tenth of a second, which
    a thread has and a loop has not.

    Raises:
        ConfigError: The package is not installed.
    """
    if find_spec("dns") is None or find_spec("dns.resolver") is None:
        raise ConfigError([MISSING])
    return _look_up


def _look_up(question: DnsQuestion, seconds: float) -> Answer | NoAnswer:
    began = time.monotonic()
    try:
        from holdfast.discovery.dns import look_up
    except ImportError as error:
        return NoAnswer(f"dnspython cannot be used: {error}")

    # What loading took is gone, of a short time the most of it; but each is asked.
    return look_up(question, max(seconds - (time.monotonic() - began), _SECONDS_MIN))
