"""
Where a log is kept that is no directory of this node: a database's address, with its secret hidden.

Here is only what every address has: a kind that is known, and a password that is never shown. What
the rest of it means is the affair of the package that opens it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from holdfast.config.address import require_text

SCHEMES: Final = ("sqlite", "postgresql", "mysql", "mariadb")
_HIDDEN: Final = "***"
_PASSWORD: Final = re.compile(r"(:(?://)?[^:@\s]*:)\S*@")
"""Up to the last @: a password may have any sign, and an address may have lost one."""
_QUERY: Final = re.compile(r"([?&][^=&\s]*pass[^=&\s]*=)[^&#\s]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """One database. Its text has the password; whatever shows it shows it without."""

    text: str = field(repr=False)

    @property
    def scheme(self) -> str:
        """The kind of database."""
        return self.text.partition("://")[0].partition("+")[0].lower()

    @property
    def has_password(self) -> bool:
        """Whether a password stands in it."""
        return hidden(self.text) != self.text

    def __str__(self) -> str:
        return hidden(self.text)

    def __repr__(self) -> str:
        return f"StoreUrl({hidden(self.text)!r})"


def hidden(text: str) -> str:
    """The same text with *** for each password of an address in it."""
    return _QUERY.sub(rf"\g<1>{_HIDDEN}", _PASSWORD.sub(rf"\g<1>{_HIDDEN}@", text))


def parse_store_url(text: str) -> StoreUrl:
    """
    Read `sqlite:///FILE`, `postgresql://USER@HOST[:PORT][,HOST…]/DATABASE` or the same of mysql.

    Raises:
        ValueError: It is not of that form; the sentence hides passwords.
    """
    url = StoreUrl(text)
    if "://" not in text or url.scheme not in SCHEMES:
        raise ValueError(
            f"{str(url)[:80]!r} is no address of a database; write sqlite:///FILE,"
            " postgresql://USER@HOST/DATABASE or mysql://USER@HOST/DATABASE"
        )
    return url


def read_store_urls(value: object) -> object:
    """Addresses from flags or TOML (a list or a text), or from the environment (one text)."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, Iterable):
        raise ValueError("this is not a list of addresses")
    return tuple(
        it if isinstance(it, StoreUrl) else parse_store_url(require_text(it)) for it in value
    )
