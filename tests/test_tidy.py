"""
Our style as a test: what no linter knows, checked on every file of the repository.

Each rule is a function from one file to the faults it finds; a fault names the place and what to do
instead. A rule that makes a piece of code worse is argued with in a review, not worked around: the
few exceptions stand in the tables below, each with its reason.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 500
# Of tests and trials.
FILE_LINES_MAX_ELSEWHERE = 800
POSITIONAL_ARGUMENTS_MAX = 8
CONSTRUCTOR_ARGUMENTS_MAX = 10
NESTING_MAX = 4
HEADER_LINES_MIN = 3
FILE_BYTES_MAX = 500 * 1024

WORD_INSTEAD = {
    "ack": "acknowledge (ack is a word of the wire)",
    "cfg": "settings",
    "conn": "connection",
    "helper": "the noun it is about",
    "helpers": "the noun they are about",
    "manager": "the noun it keeps (links, segments)",
    "mgr": "the noun it keeps (links, segments)",
    "misc": "one name for each thing in it",
    "msg": "message",
    "util": "the noun it is about",
    "utils": "the noun they are about",
}
MODULE_INSTEAD = WORD_INSTEAD | {
    "common": "the noun they share",
    "core": "the noun it is about",
    "data": "what the data is",
    "handler": "what it handles, as a noun",
    "info": "what it tells",
    "process": "what it does, as a noun",
    "service": "what it serves, as a noun",
}
CLASS_INSTEAD = {
    "Abstract": "the name of the contract itself",
    "Factory": "a function that makes the thing",
    "Handler": "what it is: a noun from the field",
    "Helper": "the noun it is about",
    "Manager": "the noun it keeps",
    "Service": "what it serves, as a noun",
    "Util": "the noun it is about",
}
# `ack` is a header and a frame: code that speaks a wire protocol has to say it.
WIRE_FOLDERS = ("src/holdfast/protocols/", "src/holdfast/sessions/", "src/holdfast/client/")
# A comment that divides a file. In the product a file that wants one wants to be split; elsewhere,
# in a long list of tests, there is one form of it: a title, and a line to the right.
BANNER = re.compile(r"^[ ]*#[ ]*(?:[-=~*#]{3,}.*|.*[-=~*#]{5,})$", re.MULTILINE)
ONE_BANNER = re.compile(r"^[ ]*# \S.* -{5,}$")
# Of a group: before Python 3.11.5 a turn that fails half way has taken what it met till then.
POSSESSIVE_GROUP = re.compile(r"\)[*+?]\+[^+\s]")
# A contract has no code of its own; every implementation runs its suite.
NO_TEST_FILE = ("__init__.py", "__main__.py", "contract.py")


@dataclass(frozen=True)
class SourceFile:
    """One file of the repository; `name` is its path from the root."""

    name: str

    @property
    def path(self) -> Path:
        return REPOSITORY / self.name

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8", errors="replace")

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.name)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Of the whole tree: to walk it takes longer than any rule, so that is done once."""
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        found = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in self.nodes if isinstance(node, found)]

    @cached_property
    def calls(self) -> list[tuple[ast.Call, str]]:
        """Each call, and what is called, as it is written."""
        found = (node for node in self.nodes if isinstance(node, ast.Call))
        return [(node, ast.unparse(node.func)) for node in found]

    @property
    def is_product(self) -> bool:
        return self.name.startswith("src/")

    @property
    def is_program(self) -> bool:
        """Also what proves the product is written to last."""
        return self.name.startswith(("src/", "trials/"))

    @property
    def is_test(self) -> bool:
        return self.name.startswith("tests/")

    @property
    def has_words_of_the_wire(self) -> bool:
        return self.is_test or self.name.startswith(WIRE_FOLDERS)

    def at(self, node: ast.AST, fault: str) -> str:
        return f"{self.name}:{getattr(node, 'lineno', 1)}: {fault}"


Rule = Callable[[SourceFile], Iterator[str]]


@cache
def repository_files() -> tuple[SourceFile, ...]:
    """Every file that git keeps or would keep."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    names = sorted(set(listing.stdout.splitlines()))
    return tuple(SourceFile(name) for name in names if (REPOSITORY / name).is_file())


def python_files() -> list[SourceFile]:
    return [file for file in repository_files() if file.name.endswith(".py")]


# Rules for every Python file ------------------------------------------------------------------


def function_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def function_is_short(file: SourceFile) -> Iterator[str]:
    """A long function, from `def` to its end, does two things."""
    for node in file.functions:
        lines = function_lines(node)
        if lines > FUNCTION_LINES_MAX:
            yield file.at(
                node,
                f"{node.name} has {lines} lines, {FUNCTION_LINES_MAX} are the most:"
                f" one function holds the branches, move the straight parts into small ones",
            )


def file_is_short(file: SourceFile) -> Iterator[str]:
    """A long file holds two ideas."""
    limit = FILE_LINES_MAX if file.is_product else FILE_LINES_MAX_ELSEWHERE
    lines = file.text.count("\n")
    if lines > limit:
        yield (
            f"{file.name}: {lines} lines, {limit} are the most:"
            f" split it by idea; a module that outgrows itself becomes a package of the same name"
        )


def arguments_are_few(file: SourceFile) -> Iterator[str]:
    """Beyond a few, arguments are named at the call: make them keyword-only."""
    if file.name.startswith("src/holdfast/cli/"):
        return  # a command's arguments are its options; typer names them at the call
    for node in file.functions:
        names = [argument.arg for argument in node.args.posonlyargs + node.args.args]
        count = len([name for name in names if name not in {"self", "cls"}])
        # A value built on the hot path takes its fields by position: a keyword call costs time.
        limit = CONSTRUCTOR_ARGUMENTS_MAX if node.name == "__init__" else POSITIONAL_ARGUMENTS_MAX
        if count > limit and not (file.is_test and node.name.startswith("test_")):
            yield file.at(
                node,
                f"{node.name} takes {count} positional arguments, {limit} are the most:"
                f" put `*` after the first three, or pass one value that holds them",
            )


def nesting_depth(statements: list[ast.stmt]) -> int:
    """How many compound statements stand inside each other; elif does not count again."""
    deepest = 0
    for statement in statements:
        inner = 0
        for field in ("body", "orelse", "finalbody"):
            block = getattr(statement, field, [])
            is_elif = field == "orelse" and len(block) == 1 and isinstance(block[0], ast.If)
            depth = nesting_depth(block) - (1 if is_elif and isinstance(statement, ast.If) else 0)
            inner = max(inner, depth)
        parts = [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
        for part in parts:
            inner = max(inner, nesting_depth(part.body))
        opens = isinstance(
            statement,
            (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match),
        )
        deepest = max(deepest, inner + (1 if opens else 0))
    return deepest


def nesting_is_shallow(file: SourceFile) -> Iterator[str]:
    """Deep nesting hides the branch that matters."""
    for node in file.functions:
        depth = nesting_depth(node.body)
        if depth > NESTING_MAX:
            yield file.at(
                node,
                f"{node.name} nests {depth} deep, {NESTING_MAX} is the most:"
                f" return early, or move the inner loop into its own function",
            )


def module_name_is_a_noun(file: SourceFile) -> Iterator[str]:
    """A name like `utils` says only that nobody knew where a thing belongs."""
    for part in Path(file.name).parts:
        stem = part.removesuffix(".py").removeprefix("test_")
        if stem in MODULE_INSTEAD:
            yield f"{file.name}: `{stem}` is no name for a module: say {MODULE_INSTEAD[stem]}"


def words_of(identifier: str) -> list[str]:
    return identifier.lower().strip("_").split("_")


def function_name_says_what(file: SourceFile) -> Iterator[str]:
    """Functions and arguments are called by whole words of the field."""
    for node in file.functions:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        for identifier in [node.name, *(argument.arg for argument in arguments)]:
            for word in words_of(identifier):
                if word == "ack" and file.has_words_of_the_wire:
                    continue
                if word in WORD_INSTEAD:
                    yield file.at(node, f"`{identifier}`: say {WORD_INSTEAD[word]}")
        if node.name.startswith(("do_", "process_")) or node.name.endswith("_impl"):
            yield file.at(node, f"`{node.name}`: name what it does, with a verb of the field")


def class_name_is_a_noun(file: SourceFile) -> Iterator[str]:
    """A class is called what it is."""
    for node in file.nodes:
        if isinstance(node, ast.ClassDef):
            for word in re.findall(r"[A-Z][a-z]+", node.name):
                if word.removesuffix("s") in CLASS_INSTEAD:
                    instead = CLASS_INSTEAD[word.removesuffix("s")]
                    yield file.at(node, f"class {node.name}: name it {instead}")


def module_has_a_header(file: SourceFile) -> Iterator[str]:
    """A module opens with what it is for, why it exists, and what is always true."""
    if file.name.endswith("__init__.py") and not file.text.strip():
        return
    docstring = ast.get_docstring(file.tree)
    if docstring is None:
        yield f"{file.name}: no header: open with a docstring: what, why, invariants, owner"
    elif file.is_program and not file.name.endswith(("__init__.py", "__main__.py")):
        lines = docstring.count("\n") + 1
        if lines < HEADER_LINES_MIN:
            yield (
                f"{file.name}: a header of {lines} lines: tell in {HEADER_LINES_MIN} to 15 what"
                f" it is for, why it exists, what is always true, and who owns it"
            )


def public_method_says_what(file: SourceFile) -> Iterator[str]:
    """A public method promises something; an override keeps the promise of its base."""
    if not file.is_program:
        return
    for node in file.tree.body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_") or node.bases:
            continue
        for method in node.body:
            is_function = isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
            if is_function and not method.name.startswith("_") and not ast.get_docstring(method):
                place = f"{node.name}.{method.name}"
                yield file.at(method, f"{place}: add what it promises, its units and its errors")


def nothing_prints(file: SourceFile) -> Iterator[str]:
    """The product logs, and the command line speaks through rich."""
    is_script = file.name.startswith("tests/soak/")  # started by hand, watched by a person
    if is_script or not (file.is_program or file.is_test):
        return
    for node, name in file.calls:
        if name == "print":
            instead = "assert with a message" if file.is_test else "structlog, or rich in cli/"
            yield file.at(node, f"print: use {instead}")


def time_is_an_argument(file: SourceFile) -> Iterator[str]:
    """Only environment/ asks what time it is, so that a test can say what time it is."""
    if not file.is_program or file.name.startswith("src/holdfast/environment/"):
        return
    for node, name in file.calls:
        if name in {"time.time", "time.time_ns", "datetime.now", "datetime.datetime.now"}:
            yield file.at(node, f"{name}: take `now` as an argument, or an environment.Clock")


def unit_tests_do_not_sleep(file: SourceFile) -> Iterator[str]:
    """A test that sleeps is slow on a good day and flaky on a bad one."""
    if not file.name.startswith(("tests/unit/", "tests/property/")):
        return
    for node, name in file.calls:
        is_yield = name == "asyncio.sleep" and ast.unparse(node.args[0]) == "0"
        if name in {"asyncio.sleep", "time.sleep"} and not is_yield:
            yield file.at(node, f"{name}: advance a clock, or wait for the condition itself")


def test_says_what_it_proves(file: SourceFile) -> Iterator[str]:
    """A test without a sentence cannot be judged when it fails."""
    if not file.is_test:
        return
    for node in file.functions:
        if node.name.startswith("test_") and not ast.get_docstring(node):
            yield file.at(node, f"{node.name}: add one sentence saying what it proves")


# `test_says_what_it_proves` is a rule, not a test.
test_says_what_it_proves.__test__ = False  # type: ignore[attr-defined]


def nothing_divides(file: SourceFile) -> Iterator[str]:
    """A banner over a part of a file says that the part is a file of its own."""
    for banner in BANNER.finditer(file.text):
        number = file.text.count("\n", 0, banner.start()) + 1
        if file.is_product:
            yield f"{file.name}:{number}: a banner: split the file by idea, or leave it out"
        elif not ONE_BANNER.match(banner[0]):
            yield f"{file.name}:{number}: a banner in a form of its own: write `# Title -----`"


def source_has_its_test(file: SourceFile) -> Iterator[str]:
    """Each module is covered by its own tests, not by accident."""
    name = file.name.removeprefix("src/holdfast/")
    if not file.is_product or Path(name).name in NO_TEST_FILE:
        return
    if name.startswith("testing/"):
        return  # every test that stands on it tests it
    test_name = f"test_{Path(name).name}"
    wanted = Path("tests/unit") / Path(name).parent / test_name
    # What needs a Spark session is tested where there is one for all.
    shared = Path("tests/spark") / test_name if name.startswith("spark/") else wanted
    if not (REPOSITORY / wanted).exists() and not (REPOSITORY / shared).exists():
        yield f"{file.name}: no test file: write {wanted}"


# Rules for every file ---------------------------------------------------------------------------

LEFTOVER = re.compile(r"\b(FIXME|TODO|HACK)\b(?!.{0,3}#\d)")
# A letter of each stands in brackets, so that this file does not find itself.
ADDRESSES = re.compile(
    r"pypi[.]org|python[h]osted|npmjs[.](org|com)|deb[.]debian|index[-_]url|[.]pyen[v]"
    r"|(?<![\w.])/(roo[t]|hom[e])/|(?<![\w.])/wor[k]/(main|shared|[.])"
)


def leftovers_have_an_issue(file: SourceFile) -> Iterator[str]:
    """What is not done is written where it will be found: in an issue."""
    if file.name == "tests/test_tidy.py":
        return
    for number, line in enumerate(file.text.splitlines(), start=1):
        if found := LEFTOVER.search(line):
            yield f"{file.name}:{number}: {found[1]}: do it, or file an issue and write its #number"


def nothing_of_this_machine(file: SourceFile) -> Iterator[str]:
    """A clone works on every machine: no registry's address, no path of one machine."""
    for number, line in enumerate(file.text.splitlines(), start=1):
        if found := ADDRESSES.search(line):
            yield (
                f"{file.name}:{number}: `{found[0]}`: name the package and let its client find it,"
                f" or take the path from the repository or the environment"
            )


def patterns_repeat_no_group_possessively(file: SourceFile) -> Iterator[str]:
    """A possessive group matches too much on a Python that this project still serves."""
    for number, line in enumerate(file.text.splitlines() if file.is_program else (), 1):
        if found := POSSESSIVE_GROUP.search(line):
            yield f"{file.name}:{number}: `{found[0]}`: repeat it greedily, in `(?>...)`"


def file_is_small(file: SourceFile) -> Iterator[str]:
    """A large blob stays in every clone for ever."""
    size = file.path.stat().st_size
    if size > FILE_BYTES_MAX:
        yield f"{file.name}: {size:,} bytes, {FILE_BYTES_MAX:,} are the most: generate it in a test"


PYTHON_RULES: list[Rule] = [
    arguments_are_few,
    class_name_is_a_noun,
    file_is_short,
    function_is_short,
    function_name_says_what,
    module_has_a_header,
    module_name_is_a_noun,
    nesting_is_shallow,
    nothing_divides,
    nothing_prints,
    patterns_repeat_no_group_possessively,
    public_method_says_what,
    source_has_its_test,
    test_says_what_it_proves,
    time_is_an_argument,
    unit_tests_do_not_sleep,
]
FILE_RULES: list[Rule] = [file_is_small, leftovers_have_an_issue, nothing_of_this_machine]


@cache
def faults_of_python_files() -> dict[Rule, list[str]]:
    """
    What each rule finds in all Python files: a file is read once, and what was read of it let go.

    All kept to the end, the collector of cycles looked through it again and again: 30 s, not 6.
    """
    found: dict[Rule, list[str]] = {rule: [] for rule in PYTHON_RULES}
    for name in [file.name for file in python_files()]:
        file = SourceFile(name)
        for rule, faults in found.items():
            faults.extend(rule(file))
    return found


@pytest.mark.parametrize("rule", PYTHON_RULES, ids=lambda rule: rule.__name__)
def test_python_files_are_tidy(rule: Rule) -> None:
    """Every Python file of the repository keeps every rule of the style page."""
    faults = faults_of_python_files()[rule]

    assert not faults, "\n".join([str(rule.__doc__), *faults])


@pytest.mark.parametrize("rule", FILE_RULES, ids=lambda rule: rule.__name__)
def test_all_files_are_tidy(rule: Rule) -> None:
    """Every file of the repository is small, finished and free of one machine's addresses."""
    faults = [fault for file in repository_files() for fault in rule(file)]

    assert not faults, "\n".join([str(rule.__doc__), *faults])


# The rules themselves ---------------------------------------------------------------------------

UNTIDY = {
    arguments_are_few: "def f(a, b, c, d, e, g, h, i, j): pass",
    class_name_is_a_noun: "class LinkManager: pass",
    file_is_short: "x = 1\n" * (FILE_LINES_MAX + 1),
    function_is_short: "def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX,
    function_name_says_what: "def send_msg(): pass",
    module_has_a_header: '"""Too short."""',
    nesting_is_shallow: "def f():\n"
    + "".join("  " * n + "if 1:\n" for n in range(1, 6))
    + " " * 12
    + "f()",
    nothing_divides: f"x = 1\n# {'-' * 20}\n",
    nothing_prints: "print(1)",
    patterns_repeat_no_group_possessively: "re.compile(r'(?:ab)*+')",
    public_method_says_what: "class A:\n  def f(self): pass",
    time_is_an_argument: "import time\ntime.time()",
    leftovers_have_an_issue: "# TODO later",
    nothing_of_this_machine: f"cd {Path('/', 'root', 'x')}",
    source_has_its_test: "x = 1",
}


@pytest.mark.parametrize("rule", UNTIDY, ids=lambda rule: rule.__name__)
def test_each_rule_finds_what_it_is_for(rule: Rule) -> None:
    """A rule that finds nothing would be kept by everything: each finds a fault made for it."""
    file = SourceFile("src/holdfast/invented/untidy.py")
    file.__dict__["text"] = UNTIDY[rule]

    assert list(rule(file))


def test_tests_are_held_to_their_own_rules() -> None:
    """A test without a sentence and a unit test that sleeps are both found."""
    file = SourceFile("tests/unit/test_untidy.py")
    file.__dict__["text"] = "async def test_x():\n    await asyncio.sleep(1)\n"

    assert list(test_says_what_it_proves(file))
    assert list(unit_tests_do_not_sleep(file))


def test_an_elif_chain_is_not_nested() -> None:
    """Ten alternatives side by side are one level deep."""
    chain = "if x == 0:\n  pass\n" + "".join(f"elif x == {n}:\n  pass\n" for n in range(1, 10))

    assert nesting_depth(ast.parse(chain).body) == 1
