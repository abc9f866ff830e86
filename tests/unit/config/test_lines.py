"""
On which line a key stands.
"""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.lines import key_lines

FILE = '''\
# name = "not this one"
name = "a"
"log_level" = 'info'
members = [
  "site = 1",  # copies = 2
  "b=h:1",
]
long = """
memory = 3
"""
stomp.strict = true
[broker] # sites = 1
prefetch_max = 3
  dead_letter_queue = "[x]"
[[members2]]
name = "x"
[a."b.c".d]
k = { z = 1, y = [
 1] }
q = 1
'''


def test_each_key_is_found_where_it_is_given() -> None:
    """
    What looks like a key within a text, a list or a comment is none.
    """
    tomllib.loads(FILE)
    assert key_lines(FILE) == {
        "name": 2,
        "log_level": 3,
        "members": 4,
        "long": 8,
        "stomp.strict": 11,
        "broker": 12,
        "broker.prefetch_max": 13,
        "broker.dead_letter_queue": 14,
        "members2": 15,
        "members2.name": 16,
        "a.b.c.d": 17,
        "a.b.c.d.k": 18,
        "a.b.c.d.q": 20,
    }


@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    """
    It is asked of what somebody wrote, whatever that is.
    """
    key_lines(text)


def test_a_large_file_takes_no_time() -> None:
    """
    Each character is looked at a few times, however many there are.
    """
    text = "\n".join(f"k{number} = [1, 'x']" for number in range(20_000))
    assert key_lines(text)["k19999"] == 20_000
