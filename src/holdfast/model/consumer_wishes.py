"""
What a SUBSCRIBE wishes, by whichever of its names: a header, or an option of the destination.

Read by the broker's session and by our client, which must know a browser by the same signs. Pure.
"""

from __future__ import annotations

from typing import Final

_BROWSER: Final = ("browser", "activemq.browser")


def wished(
    headers: dict[str, str], names: tuple[str, ...], options: dict[str, str], option: str
) -> tuple[str, str | None]:
    """Give what is said under the first of several names, and where that stands."""
    for name in names:
        if name in headers:
            return f"header {name}", headers[name].strip()
    text = options.get(f"consumer.{option}")
    return f"option consumer.{option}", None if text is None else text.strip()


def browser_wished(headers: dict[str, str], options: dict[str, str]) -> tuple[str, str | None]:
    """Give what is said of looking through a queue (`true` to do so), and where that stands."""
    return wished(headers, _BROWSER, options, "browser")
