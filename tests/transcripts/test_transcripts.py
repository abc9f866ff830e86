"""
Stories of replication groups, told as text: commands, a line of dashes, what is to come of them.

Each file `stories/*.txt` is one run of a simulated group with a quick, perfect network and a fixed
seed. `#` begins the telling of the story. To write the expected output anew run with REWRITE=1 and
read the difference before it is committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.journal.entry import KIND_CONFIG, KIND_NOOP
from holdfast.replication.membership import Member
from holdfast.replication.messages import (
    AppendRequest,
    AppendResponse,
    Editions,
    Message,
    PreVoteRequest,
    PreVoteResponse,
    RepairRequest,
    RepairResponse,
    ResetRequest,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)
from holdfast.replication.settings import ReplicationSettings
from trials.simulation.simulated_group import DIRECTORY, SimulatedGroup, SimulatedNode

STORIES = Path(__file__).parent / "stories"
KIND_LETTERS = {0: "R", KIND_NOOP: "N", KIND_CONFIG: "C"}


def told(message: Message) -> str:
    """A message as the stories show it."""
    kind = type(message).__name__
    match message:
        case PreVoteRequest() | VoteRequest():
            extra = " transfer" if isinstance(message, VoteRequest) and message.is_transfer else ""
            text = f"term {message.term} log {message.last_term}/{message.last_index}{extra}"
        case PreVoteResponse() | VoteResponse():
            text = f"term {message.term} {'yes' if message.granted else 'no'}"
        case AppendRequest():
            entries = [f"{entry.term}/{entry.index}" for entry in message.entries]
            text = (
                f"term {message.term} after {message.previous_term}/{message.previous_index}"
                f" commit {message.commit_index} entries [{' '.join(entries)}]"
            )
        case AppendResponse():
            rejected = f" rejected, try {message.hint_term}/{message.hint_index}"
            text = f"term {message.term} match {message.match_index}" + (
                rejected if message.rejected else ""
            )
        case ResetRequest():
            text = f"term {message.term} begin at {message.base_index}"
        case TransferRequest():
            text = f"term {message.term}"
        case RepairRequest():
            text = f"entry {message.index}"
        case RepairResponse():
            text = f"entry {message.index} {'here' if message.entry else 'none'}"
        case _:
            text = message.name
    return f"{kind} {text}"


@dataclass
class Story:
    """One group and the commands that can be given to it."""

    group: SimulatedGroup | None = None
    output: list[str] = field(default_factory=list)
    is_tracing: bool = False
    copies: dict[str, dict[Path, bytes]] = field(default_factory=dict)

    @property
    def live(self) -> SimulatedGroup:
        assert self.group is not None, "begin with `group`"
        return self.group

    def node(self, name: str) -> SimulatedNode:
        return self.live.nodes[name]

    def run(self, line: str) -> None:
        command, *arguments = line.split()
        found: Callable[..., None] | None = getattr(self, f"on_{command}", None)
        assert found is not None, f"no command {command}"
        try:
            found(*arguments)
        except HoldfastError as error:
            self.output.append(f"{type(error).__name__}: {error}")

    def say(self, text: str) -> None:
        self.output.append(text)

    # Commands: `on_x` is `x` ----------------------------------------------------------------------

    def on_group(self, *words: str) -> None:
        members = [self.member(word) for word in words if "=" not in word]
        options = dict(word.split("=") for word in words if "=" in word)
        segment_bytes = int(options.pop("segment_bytes", 64 * 1024))
        seed = int(options.pop("seed", 1))
        settings = ReplicationSettings(**{key: int(value) for key, value in options.items()})
        self.group = SimulatedGroup(
            members, seed=seed, settings=settings, segment_bytes=segment_bytes
        )
        self.live.trace = self._trace

    def member(self, word: str) -> Member:
        name, kind, site = [*word.split(":"), "voter", ""][:3] if ":" in word else (word, "", "")
        site = word.split(":")[2] if word.count(":") == 2 else site
        return Member(name, f"{name}:1", kind or "voter", site)  # type: ignore[arg-type]

    def on_start(self, *names: str) -> None:
        for name in names or tuple(self.live.nodes):
            self.live.restart(name)

    def on_run(self, seconds: str) -> None:
        self.live.run(float(seconds))

    def on_leader(self) -> None:
        """Wait for a serving leader and tell who it is and how long that took."""
        group = self.live
        seconds = group.run_until(lambda: group.leader() is not None, 10)
        found = group.leader()
        assert found is not None
        self.say(f"{found.name} leads term {found.driver.term} after {seconds * 1000:.0f} ms")

    def on_propose(self, name: str, body: str, count: str = "1") -> None:
        indexes = [self.live.propose(name, body.encode()) for _ in range(int(count))]
        if not indexes[-1]:
            self.say(f"{name} does not lead")
        else:
            self.say(f"entry {indexes[-1]}")

    def on_fill(self, name: str, count: str, size: str) -> None:
        """Propose many entries of a size, letting time pass between them."""
        for number in range(int(count)):
            self.live.propose(name, b"%d " % number * (int(size) // 5))
            self.live.run(0.003)

    def on_status(self) -> None:
        for name, node in sorted(self.live.nodes.items()):
            if not node.is_alive:
                self.say(f"{name} dead")
                continue
            it = node.driver.status()
            extra = f" damaged {list(it.damaged)}" if it.damaged else ""
            extra += " paused" if node.is_paused else ""
            extra += " fenced" if it.fenced_reason else ""
            self.say(
                f"{name} {it.role} term {it.term} leader {it.leader or '-'} commit"
                f" {it.commit_index} last {it.last_index} stored {it.stored_index}"
                f" given {len(node.taken)}{extra}"
            )

    def on_log(self, name: str) -> None:
        journal = self.node(name).journal
        entries = journal.entries(journal.first_index, 1 << 24) if journal.last_index else []
        shown = [f"{it.index}:{it.term}{KIND_LETTERS[it.kind]}" for it in entries]
        self.say(" ".join(shown) if len(shown) < 30 else f"{shown[0]} ... {shown[-1]}")

    def on_members(self, name: str) -> None:
        for member in self.node(name).driver.status().members:
            self.say(f"{member.name} {member.kind} {member.site}".rstrip())

    def on_kill(self, name: str) -> None:
        self.live.crash(name)

    def on_power(self, *names: str) -> None:
        for name in names:
            self.live.crash(name, power=True)

    def on_wipe(self, name: str) -> None:
        self.live.wipe(name)

    def on_copy(self, name: str) -> None:
        self.copies[name] = self.node(name).disk.snapshot()

    def on_put_back(self, name: str) -> None:
        self.node(name).disk.restore(self.copies[name])

    def on_pause(self, name: str) -> None:
        self.live.pause(name)

    def on_resume(self, name: str) -> None:
        self.live.resume(name)

    def on_partition(self, *words: str) -> None:
        sides = [set(side.split()) for side in " ".join(words).split("|")]
        self.live.partition(*sides)

    def on_heal(self) -> None:
        self.live.heal()

    def on_transfer(self, name: str, to: str = "") -> None:
        """Hand over and wait until another leads."""
        group = self.live
        start = group.now
        self.node(name).driver.transfer(to or None)
        group.turn(self.node(name))
        group.run_until(lambda: (it := group.leader()) is not None and it.name != name, 3)
        found = group.leader()
        assert found is not None
        self.say(f"{found.name} leads after {(group.now - start) * 1000:.0f} ms")

    def on_add(self, leader: str, word: str) -> None:
        member = self.member(word)
        self.live.add(member)
        self.node(leader).driver.add_member(member)
        self.live.turn(self.node(leader))

    def on_remove(self, leader: str, name: str) -> None:
        self.node(leader).driver.remove_member(name)
        self.live.turn(self.node(leader))

    def on_promote(self, leader: str, name: str) -> None:
        self.node(leader).driver.promote(name)
        self.live.turn(self.node(leader))

    def on_force(self, name: str) -> None:
        self.node(name).driver.promote_force()
        self.live.turn(self.node(name))

    def on_dispatch(self, name: str) -> None:
        now = self.live.now
        self.say("yes" if self.node(name).driver.may_dispatch(now) else "no")

    def on_fenced(self, name: str) -> None:
        self.say(self.node(name).fenced or "no")

    def on_rot(self, name: str, index: str) -> None:
        """Flip a bit in the body of an entry on disk, behind everyone's back."""
        node = self.node(name)
        raw = node.journal.entry(int(index)).raw
        for segment in node.journal.segments():
            place = node.disk.content(segment.path).find(raw)
            if place >= 0:
                node.disk.flip_bit(segment.path, (place + 80) * 8)
                return
        raise AssertionError("the entry is not on disk")

    def on_drop(self, name: str) -> None:
        """Drop all the segments that replication lets go."""
        node = self.node(name)
        node.driver.repropose_config()
        self.live.turn(node)
        self.live.run(0.5)
        node.journal.drop_before(node.driver.reclaim_limit)
        self.say(f"first index {node.journal.first_index}")

    def on_first(self, name: str) -> None:
        self.say(f"first index {self.node(name).journal.first_index}")

    def on_same(self, *names: str) -> None:
        """Compare the sealed segment files of nodes, byte by byte."""
        contents = []
        for name in names:
            node = self.node(name)
            folder = DIRECTORY / "journal"
            sealed = [it.path.name for it in node.journal.segments() if it.sealed]
            contents.append({it: node.disk.content(folder / it) for it in sealed})
        common = set.intersection(*(set(content) for content in contents))
        is_same = all(content[it] == contents[0][it] for content in contents for it in common)
        self.say(f"{len(common)} sealed segments {'are the same' if is_same else 'DIFFER'}")

    def on_trace(self, word: str) -> None:
        self.is_tracing = word == "on"

    def _trace(self, source: str, target: str, message: Message) -> None:
        if self.is_tracing and not isinstance(message, Editions):
            self.output.append(f"{source} > {target}: {told(message)}")


def blocks_of(text: str) -> list[tuple[list[str], list[str], str]]:
    """(commands, told part included; expected lines; the block's text before the dashes)."""
    blocks = []
    for block in text.strip("\n").split("\n\n"):
        head, _, expected = block.partition("----\n") if "----" in block else (block, "", "")
        lines = [line for line in head.splitlines() if line and not line.startswith("#")]
        blocks.append((lines, expected.splitlines(), head))
    return blocks


def play(text: str) -> tuple[str, str]:
    """Play a story; return it as it is and as it came out."""
    story = Story()
    written, found = [], []
    for commands, expected, head in blocks_of(text):
        story.output = []
        for line in commands:
            story.run(line)
        written.append((head, expected))
        found.append((head, story.output))
    return joined(written), joined(found)


def joined(blocks: list[tuple[str, list[str]]]) -> str:
    parts = []
    for head, lines in blocks:
        head_text = head.rstrip("\n")
        parts.append(head_text if not lines else "\n".join([head_text, "----", *lines]))
    return "\n\n".join(parts) + "\n"


@pytest.mark.parametrize("path", sorted(STORIES.glob("*.txt")), ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    """The group does what its story tells, line by line."""
    text = path.read_text(encoding="utf-8")

    written, found = play(text)
    if os.environ.get("REWRITE"):
        path.write_text(found, encoding="utf-8")
        return

    assert written == found
