"""Files of Java's properties."""

from __future__ import annotations

import pytest

from holdfast.cli.java_properties import read_properties


@pytest.mark.parametrize(
    ("written", "name", "value"),
    [
        (b"ann=secret", "ann", "secret"),
        (b"  ann : secret  ", "ann", "secret  "),
        (b"ann secret", "ann", "secret"),
        (b"ann = a=b:c", "ann", "a=b:c"),
        (b"ann", "ann", ""),
        (b"a\\=b\\:c=d", "a=b:c", "d"),
        (b"admins=ann,\\\n    ben,\\\n\tcas", "admins", "ann,ben,cas"),
        (b"ann=back\\\\", "ann", "back\\"),
        (b"ann=\\u00fc\\t\\x", "ann", "\u00fc\tx"),
        (b"ann=\xfc", "ann", "\u00fc"),
        (b"ann=x # y", "ann", "x # y"),
        (b"ann=open\\", "ann", "open"),
    ],
)
def test_an_entry_is_read_as_java_reads_it(written: bytes, name: str, value: str) -> None:
    """By java.util.Properties' rules: passwords may have any of these in them."""
    (found,) = read_properties(written).values()
    assert (found.name, found.value, found.line) == (name, value, 1)


def test_comments_and_empty_lines_are_none() -> None:
    """The line of an entry is where it begins; of a name that comes again the last one counts."""
    data = b"# x=y\r\n! x=y\r\n\r\na=1\r\nb=2,\\\r\n  3\r\na=4\r\n"
    found = read_properties(data)
    assert {it.name: (it.value, it.line) for it in found.values()} == {
        "a": ("4", 7),
        "b": ("2,3", 5),
    }
    assert read_properties(b"") == {}
