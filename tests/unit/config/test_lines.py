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
        ("name",): 2,
        ("log_level",): 3,
        ("members",): 4,
        ("long",): 8,
        ("stomp",): 11,
        ("stomp", "strict"): 11,
        ("broker",): 12,
        ("broker", "prefetch_max"): 13,
        ("broker", "dead_letter_queue"): 14,
        ("members2",): 15,
        ("members2", "name"): 16,
        ("a",): 17,
        ("a", "b.c"): 17,
        ("a", "b.c", "d"): 17,
        ("a", "b.c", "d", "k"): 18,
        ("a", "b.c", "d", "q"): 20,
    }


def test_a_name_with_dots_is_not_a_key_of_a_section() -> None:
    """
    They have the same letters; the operator is sent to the one that is wrong.
    """
    text = '"broker.prefetch_max" = 7\n[broker]\nprefetch_max = 0\n[stomp.broker]\nprefetch_max = 1'
    assert key_lines(text) == {
        ("broker.prefetch_max",): 1,
        ("broker",): 2,
        ("broker", "prefetch_max"): 3,
        ("stomp",): 4,
        ("stomp", "broker"): 4,
        ("stomp", "broker", "prefetch_max"): 5,
    }


def test_a_name_is_known_however_it_is_spelled() -> None:
    """
    With an escape within quotes it is the same key; what is no TOML is taken as it is.
    """
    assert key_lines('"na\\u006de" = 1') == {("name",): 1}
    assert key_lines('"\\x" = 1') == {("\\x",): 1}


@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    """
    It is asked of what somebody wrote, whatever that is.
    """
    key_lines(text)


def test_a_path_as_long_as_a_file_takes_no_time() -> None:
    """
    Only its beginning is told apart from others, in a table as well as before a value.
    """
    text = "[a" + ".a" * 100_000 + "]\n" + "k = 1\n" * 50_000 + "b" + ".b" * 100_000 + " = 1"
    assert key_lines(text) == {("a",) * length: 1 for length in range(1, 5)}


def test_a_large_file_takes_no_time() -> None:
    """
    Each character is looked at a few times, however many there are.
    """
    text = "\n".join(f"k{number} = [1, 'x']" for number in range(20_000))
    assert key_lines(text)["k19999",] == 20_000
