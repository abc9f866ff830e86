"""
What was given, put together: where it is from, and what of it nobody knows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.config.draft import PROBLEMS_MAX, Draft, draft, require_data
from holdfast.config.node import NodeConfig
from holdfast.config.reading import SHOWN_MAX
from holdfast.config.sources import FILE_BYTES_MAX, Origin
from holdfast.errors import ConfigError

SAME = "is the same setting as"
ONE = " give one of them"


def read(tmp_path: Path, content: str | bytes, **flags: Any) -> Draft:
    file = tmp_path / "node.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return draft(flags, {"HOLDFAST_SITE": "s", "HOLDFAST_NAME": "variable"}, file)


def test_every_value_knows_where_it_is_from(tmp_path: Path) -> None:
    """
    The nearest to the operator's fingers is the one that counts, and the one that is told.
    """
    made = read(
        tmp_path, 'name = "file"\n[broker]\nprefetch_max = 5000\n', stomp="h:1", memory=None
    )
    assert made.problems == []
    assert made.origins == {
        "name": Origin("variable", "HOLDFAST_NAME"),
        "site": Origin("variable", "HOLDFAST_SITE"),
        "stomp": Origin("flag", "--stomp"),
        "broker.prefetch_max": Origin("file", "node.toml line 3"),
    }
    assert (made.value("name"), made.value("broker.prefetch_max")) == ("variable", 5000)
    assert made.origin("broker.memory_bytes") == Origin()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("copis = 2", "copis: unknown setting; did you mean copies? (n line 1)"),
        ("\n[brokr]\nx = 1", "brokr: unknown section; did you mean broker? (n line 2)"),
        (
            "[broker]\nprefetch_mx = 1",
            "broker.prefetch_mx: unknown setting; did you mean broker.prefetch_max? (n line 2)",
        ),
        (
            "prefetch_max = 1",
            "prefetch_max: unknown setting; did you mean broker.prefetch_max? (n line 1)",
        ),
        ("zzz = 1", "zzz: unknown setting (n line 1)"),
        (
            "broker = 3",
            "broker: is a section: write [broker] and its keys below it (n line 1)",
        ),
        (
            "memory = '1g'\n[broker]\nmemory_bytes = '1g'",
            f"broker.memory_bytes: {SAME} memory (n line 1); give one of them (n line 3)",
        ),
        (
            "'broker.prefetch_max' = 7000\n[broker]\nprefetch_max = 5000",
            f"broker.prefetch_max: {SAME} broker.prefetch_max (n line 1);{ONE} (n line 3)",
        ),
        (
            "\nbroker = { prefetch_mx = 1 }",
            "broker.prefetch_mx: unknown setting; did you mean broker.prefetch_max? (n line 2)",
        ),
        (
            "[stomp]\njournal.x = 1",
            "stomp.journal: unknown section; did you mean journal? (n line 2)",
        ),
        ("[data]\nx = 1", "data: {'x': 1}: is not a path (n line 1)"),
        (
            "[[broker]]\nprefetch_max = 1",
            "broker: is a section: write [broker] and its keys below it (n line 1)",
        ),
    ],
)
def test_what_nobody_knows_is_told_with_its_line(
    tmp_path: Path, content: str, sentence: str
) -> None:
    """
    And with what may have been meant.
    """
    assert read(tmp_path, content).problems == [sentence.replace("(n ", "(node.toml ")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"name = '\xff'", "is not UTF-8 text: invalid start byte at byte 8"),
        ("[stomp]\n[stomp]\n", "is not TOML: Cannot declare ('stomp',) twice (at line 2"),
        ("name = 'a'\nname = 'b'\n", "is not TOML: Cannot overwrite a value (at line 2"),
        ("stomp = 'h:1'\n[stomp]\nstrict = true\n", "is not TOML: "),
        ("x = 1\n" * 1_000_000, f"has more than {FILE_BYTES_MAX:,} bytes; allowed: fewer"),
        ("a = " + "[" * 100_000, "it is nested too deeply"),
        ("name\0 = 1", "is not TOML: "),
    ],
)
def test_a_file_that_is_no_configuration_is_one_sentence(
    tmp_path: Path, content: str | bytes, sentence: str
) -> None:
    """
    Whatever was named by accident, there is one line that says what is wrong with it.
    """
    (told,) = read(tmp_path, content).problems
    assert told.startswith(f"config: {tmp_path / 'node.toml'} ")
    assert sentence in told
    assert "\n" not in told


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    """
    As the system says it.
    """
    assert draft({}, {}, tmp_path).problems == [
        f"config: {tmp_path} cannot be read: Is a directory"
    ]


@pytest.mark.slow
def test_of_very_many_unknown_keys_some_are_told(tmp_path: Path) -> None:
    """
    Nobody reads a hundred thousand lines, and to guess what was meant takes time for each.
    """
    made = read(tmp_path, "".join(f"key{number} = 1\n" for number in range(60_000)))
    assert len(made.problems) == PROBLEMS_MAX + 1
    assert made.problems[-1] == f"and {60_000 - PROBLEMS_MAX:,} more keys like these"


@pytest.mark.slow
def test_a_million_empty_lines_are_an_empty_file(tmp_path: Path) -> None:
    """
    They mean nothing, so nothing is wrong with them.
    """
    made = read(tmp_path, "\n" * 1_000_000 + "name = 'a'")
    assert made.problems == []


def test_a_wrong_variable_is_told_by_its_name() -> None:
    """
    It may have been set long ago, by somebody else.
    """
    made = draft({}, {"HOLDFAST_COPIES": "99"}, None)
    assert made.problems == ["copies: 99 is out of range; allowed: 1 to 15 (HOLDFAST_COPIES)"]
    assert (made.value("replication.copies"), made.wrong) == (0, {"copies"})


def test_a_directory_for_the_data_is_asked_for() -> None:
    """
    By whatever means it can be given.
    """
    made = draft({}, {}, None)
    require_data(made)
    assert made.problems == ["data: missing; give --data, HOLDFAST_DATA or 'data = …'"]


@pytest.mark.parametrize("start", ["memory", "members", "admin_names", "broker.x", "x"])
def test_what_is_nested_too_deeply_is_told_with_its_key(tmp_path: Path, start: str) -> None:
    """
    Python itself ends at a thousand levels, in whatever looks at them first.
    """
    (told,) = read(tmp_path, "name = 'a'\n" + start + ".a" * 5_000 + " = 1\n").problems
    assert told == f"{start}: is nested too deeply (node.toml line 2)"


def test_keys_are_told_so_that_they_can_be_read(tmp_path: Path) -> None:
    """
    One may be as long as a file, and hold what a terminal obeys.
    """
    long = read(tmp_path, "x" * 900_000 + " = 1\n").problems[0]
    assert len(long) < 3 * SHOWN_MAX
    (obeyed,) = read(tmp_path, '"\\u001b[31mred" = 1\n').problems
    assert obeyed == "'\\x1b[31mred': unknown setting (node.toml line 1)"
    for table in ("[{}]\nx = 1\n", "[broker.{}]\nx = 1\n", "[broker]\n{} = 1\n"):
        for problem in read(tmp_path, table.format("y" * 100_000)).problems:
            assert len(problem) < 3 * SHOWN_MAX


def test_a_file_of_an_editor_of_windows_is_read(tmp_path: Path) -> None:
    """
    It begins with a mark that is no part of the text.
    """
    made = read(tmp_path, "\ufefflog_level = 'debug'\r\nmemory = 'x'\r\n")
    assert (made.value("log_level"), made.origin("log_level").place) == (
        "debug",
        "node.toml line 1",
    )
    assert made.problems[0].endswith("(node.toml line 2)")


@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        ({"data": ["/one", "/two"]}, {}),
        ({}, {"HOLDFAST_DATA": "/one:/two"}),
    ],
)
def test_several_directories_are_the_first_and_its_mirrors(flags, environment) -> None:
    """Given by a flag each, or with colons between them in a variable."""
    made = draft(flags, environment, None)
    assert made.problems == []
    assert made.value("data") == Path("/one")
    assert made.mirrors == (Path("/two"),)


def test_a_file_has_a_list_of_directories(tmp_path) -> None:
    """A single one stays a text, with whatever is in its name."""
    file = tmp_path / "node.toml"
    file.write_text('data = ["/one", "/two:three"]\n')
    made = draft({}, {}, file)
    assert (made.value("data"), made.mirrors) == (Path("/one"), (Path("/two:three"),))
    assert draft({"data": "/a:b"}, {}, None).value("data") == Path("/a:b")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["/one", "/one/"], "data: /one is given twice; each mirror has its own"),
        ([f"/{number}" for number in range(9)], "data: 9 directories; allowed: 1 to 8"),
        (["/one", ""], "data: '' is not a path; '.' is the current directory"),
    ],
)
def test_directories_that_cannot_be_mirrors_are_told(given, sentence) -> None:
    """One sentence, before anything is made."""
    assert draft({"data": given}, {}, None).problems == [sentence]


def test_mirrors_beside_a_shared_log_are_refused() -> None:
    """What would be in the second directory is a cache, which nobody needs twice."""
    with pytest.raises(ConfigError, match="data: several directories hold the same log"):
        NodeConfig.load(flags={"data": ["/one", "/two"], "shared": "/three"}, environment={})
