"""
Makes of what the file says whoever is asked: what is not used is not loaded.

Both kinds are extras; a file that names one that is not installed was refused before.
"""

from __future__ import annotations

from holdfast.authorities.options import AuthorityOptions
from holdfast.security.authority import Authority


def open_authorities(options: AuthorityOptions) -> tuple[Authority, ...]:
    """Give who is asked, tokens first: they are known by what they look like. Reaches nobody."""
    found: list[Authority] = []
    if options.issuers:
        from holdfast.authorities.web_tokens import WebTokens  # noqa: PLC0415 - an extra

        found.append(WebTokens(options.issuers))
    for each in options.directories:
        from holdfast.authorities.directory import Directory  # noqa: PLC0415 - an extra

        found.append(Directory(each))
    return tuple(found)
