"""Whether another living broker has the name of this one, and who of the two is refused."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import StoreError, UnreachableError
from holdfast.leases import namesakes as namesakes_module
from holdfast.leases.contract import Claimant, Waiter
from holdfast.leases.namesakes import FILE_NAME, Namesakes, stamp_of
from holdfast.leases.orders import Join, Namesake, Report, Tell
from holdfast.leases.seen import SeenFile
from holdfast.leases.worker import LogWorker
from trials.leased.model_log import ModelLog
from trials.leased.model_medium import ModelMedium
from trials.leased.passage import DirectPassage
from trials.simulation.simulated_disk import SimulatedDisk

TELL_SECONDS = 2.0
ZEROS = bytes(16)


class Machine:
    """A directory of its own, and one process after the other on it."""

    def __init__(self, medium: ModelMedium, passage: DirectPassage, number: int = 1) -> None:
        self.medium, self.passage = medium, passage
        self.directory = Path(f"/node{number}")
        self.disk = SimulatedDisk(number)
        self.disk.make_directory(self.directory)
        self.holder = ""
        self._count = 0
        self._beat = 0

    def start(self, *, stamp: str = "", name: str = "a") -> LogWorker:
        """Start a process; what ran before it is gone."""
        self._count += 1
        self._beat = 0
        self.holder = f"{self.directory.name[4:]}{self._count:031x}"
        self.claimant = Claimant(
            holder=self.holder, name=name, admin=f"{self.holder[:1]}:8161", stomp=""
        )
        namesakes = Namesakes(
            self.directory,
            self.disk,
            self.passage.clock,
            name=name,
            holder=self.holder,
            tell_seconds=TELL_SECONDS,
            stamp=lambda path: stamp or str(path),
        )
        self.worker = LogWorker(
            ModelLog(self.medium, self.passage),
            SeenFile(self.directory, self.disk),
            self.passage.clock,
            name=name,
            namesakes=namesakes,
        )
        return self.worker

    def join(self) -> Report:
        return self.worker.perform(Join(0, ZEROS, 1.0))

    def tell(self) -> Report:
        """As a driver does every two seconds."""
        return self.telling()()

    def telling(self) -> Callable[[], Report]:
        """What this very process would tell next."""
        self._beat += 1
        told = Waiter(claimant=self.claimant, known_level=1, beat=self._beat, applied_index=0)
        worker = self.worker
        return lambda: worker.perform(Tell(told, 1.0))

    def copied_to(self, other: Machine) -> None:
        """Copy the directory to another machine, file by file."""
        data = self.disk.content(self.directory / FILE_NAME)
        file = other.disk.open(other.directory / FILE_NAME, create=True)
        file.write(data, 0)


@pytest.fixture
def machine(medium: ModelMedium) -> Callable[[int], Machine]:
    """Make a machine; all are over one medium, in one time."""
    passage = DirectPassage()
    return lambda number: Machine(medium, passage, number)


def joined_in(newcomer: Machine, other: Machine | None = None) -> tuple[float, Report]:
    """After how long it has joined or is refused, where the other one lives on; and how."""
    began = newcomer.passage.now
    tell_at = began + TELL_SECONDS / 2
    while isinstance((report := newcomer.join()).error, UnreachableError):
        newcomer.passage.wait(0.5)
        if other is not None and newcomer.passage.now >= tell_at:
            other.tell()
            tell_at += TELL_SECONDS
        assert newcomer.passage.now < began + 60
    return newcomer.passage.now - began, report


def test_one_that_was_killed_comes_back_at_once(machine: Callable[[int], Machine]) -> None:
    """Its own line stands there still: of a process that ran on this directory, so it is gone."""
    one = machine(1)
    for _ in range(3):
        one.start()
        assert joined_in(one) == (0.0, one.join())
        one.tell()


def test_the_lease_of_one_that_was_killed_is_known_to_be_over(
    machine: Callable[[int], Machine], medium: ModelMedium
) -> None:
    """Its own admin port answers again, so nobody else would say so: whoever took it has ended."""
    one, two = machine(1), machine(2)
    one.start()
    assert one.join().gone == ""
    medium.take(medium.read(), one.claimant)
    killed = one.holder
    two.start(name="b")
    assert joined_in(two)[1].gone == ""
    one.start()
    assert joined_in(one)[1].gone == killed


@pytest.mark.parametrize("is_known", [True, False])
def test_who_was_killed_takes_its_lease_anew_after_two_beats(
    broker: Callable[..., Any], medium: ModelMedium, is_known: bool
) -> None:
    """It is the same directory, or a copy that looks so: its holder would have told by then."""
    broker("a").serve()
    again = broker("b")
    ran = {"a" * 32} if is_known else set()
    again.worker._namesakes = SimpleNamespace(
        judge=lambda *_: None, meet=lambda *_: None, ran_here=lambda holder: holder in ran
    )
    began = again.passage.now
    again.until(lambda: again.driver.is_leader)
    assert (1.9 < again.passage.now - began < 3.0) is is_known
    assert [epoch for epoch, _ in medium.takes] == [1, 2]


def test_another_of_its_name_stands_in_its_status(broker: Callable[..., Any]) -> None:
    """As a warning, for as long as it is there."""
    one = broker("a").serve()
    said: list[Namesake | None] = [Namesake("0" * 32, "another broker called a")]
    one.worker._namesakes = SimpleNamespace(meet=lambda *_: said[0])
    one.until(lambda: "another broker called a" in one.driver.facts().warnings)
    said[0] = None
    one.until(lambda: one.driver.facts().warnings == ())


def test_one_that_was_killed_before_it_told_comes_back_at_once_too(
    machine: Callable[[int], Machine],
) -> None:
    """The line is of the process before that one."""
    one = machine(1)
    one.start()
    one.join()
    one.tell()
    one.start()
    one.join()
    one.start()
    assert joined_in(one)[0] == 0.0


@pytest.mark.parametrize("is_copied", [False, True], ids=["of its own", "copied"])
def test_who_comes_later_is_refused_and_hurts_nobody(
    machine: Callable[[int], Machine], medium: ModelMedium, is_copied: bool
) -> None:
    """Also with the directory of the other one: a copy is another directory, and knows nobody."""
    one, two = machine(1), machine(2)
    one.start()
    one.join()
    one.tell()
    if is_copied:
        one.copied_to(two)
    worker = two.start()
    seconds, report = joined_in(two, one)
    assert type(report.error) is StoreError
    assert "another broker called a uses" in str(report.error)
    assert "its admin port: 1:8161" in str(report.error)
    assert 0 < seconds <= 3 * TELL_SECONDS
    worker.close()
    assert medium.waiters["a"].claimant.holder == one.holder
    assert one.tell().error is None


def test_where_a_copy_cannot_be_told_from_its_original_both_find_out(
    machine: Callable[[int], Machine], caplog: pytest.LogCaptureFixture
) -> None:
    """
    As where a volume was copied to the root of another one: also who thinks that the other was an
    earlier process of its own directory. Each tells it once, and who does not hold the lease ends.
    """
    one, two = machine(1), machine(2)
    one.start(stamp="same")
    one.join()
    one.copied_to(two)
    two.start(stamp="same")
    assert joined_in(two)[0] == 0.0
    with caplog.at_level(logging.ERROR):
        for _ in range(6):
            found = one.tell().namesake, two.tell().namesake
    told = [it.message for it in caplog.records if "another broker called a" in it.message]
    assert len(told) == 2
    assert "stop one of the two" in told[0]
    assert {it.told for it in found if it is not None} == set(told)
    assert [it.holder for it in found if it is not None] == [two.holder, one.holder]
    two.worker.close()
    assert one.tell().namesake is None


@pytest.mark.parametrize("is_holder", [True, False])
def test_of_two_of_a_name_who_does_not_hold_the_lease_ends(
    broker: Callable[..., Any], is_holder: bool
) -> None:
    """The other one tells it, and goes on; of two that wait for a third it is one of the two."""
    one, two = broker("a").serve(), broker("b")
    two.until(lambda: two.driver.leader == "a")
    met = one if is_holder else two
    other = {one: two, two: one}[met].state.claimant.holder
    met.worker._namesakes = SimpleNamespace(meet=lambda *_: Namesake(other, "another called a"))
    if is_holder:
        met.until(lambda: "another called a" in met.driver.facts().warnings)
        assert met.driver.is_serving
        return
    with pytest.raises(StoreError, match="another called a; the other one goes on"):
        met.until(lambda: met.state.namesake == "never")


@pytest.mark.parametrize(("other", "is_left"), [("0" * 32, False), ("f" * 32, True)])
def test_of_two_that_wait_for_a_third_one_is_left(
    broker: Callable[..., Any], other: str, is_left: bool
) -> None:
    """By the numbers of their processes, which both know."""
    broker("a").serve()
    two = broker("b")
    two.until(lambda: two.driver.leader == "a")
    two.worker._namesakes = SimpleNamespace(meet=lambda *_: Namesake(other, "another called b"))
    if is_left:
        two.until(lambda: "another called b" in two.driver.facts().warnings)
        return
    with pytest.raises(StoreError, match="another called b; the other one goes on"):
        two.until(lambda: two.state.namesake == "never")


def test_who_lost_the_lease_just_now_does_not_end_for_one_that_ended_for_it(
    broker: Callable[..., Any],
) -> None:
    """What that one told last is met twice at most; who is met more often goes on."""
    one, two = broker("a").serve(), broker("b")
    two.until(lambda: two.driver.leader == "a")
    left = [Namesake("0" * 32, "another called b")] * 2
    two.worker._namesakes = SimpleNamespace(meet=lambda *_: left.pop() if left else None)
    two.until(lambda: two.state.namesake_count == 2)
    for _ in range(200):
        one.step()
        two.step()
    assert two.driver.leader == "a"
    left.append(Namesake("0" * 32, "another called b"))
    with pytest.raises(StoreError, match="another called b; the other one goes on"):
        two.until(lambda: two.state.namesake == "never")


def test_a_copy_does_not_take_the_lease_of_its_living_original(
    broker: Callable[..., Any], medium: ModelMedium
) -> None:
    """Its holder is said to have ended with its directory, and beats: that is not believed."""
    one, two = broker("a").serve(), broker("b")
    two.worker._namesakes = SimpleNamespace(
        judge=lambda *_: None, meet=lambda *_: None, ran_here=lambda holder: holder == "a" * 32
    )
    while two.passage.now < 20.0:
        for each in (one, two):
            each.step()
    assert one.driver.is_serving
    assert [epoch for epoch, _ in medium.takes] == [1]


def test_one_that_has_lost_its_directory_waits_until_it_is_sure(
    machine: Callable[[int], Machine],
) -> None:
    """A broker of that name was killed elsewhere: it tells nothing more, and is gone."""
    one, two = machine(1), machine(2)
    one.start()
    one.join()
    one.tell()
    two.start()
    seconds, report = joined_in(two)
    assert report.error is None
    assert 3 * TELL_SECONDS <= seconds < 3 * TELL_SECONDS + 1
    assert two.tell().error is None


def test_what_a_dead_one_had_on_its_way_is_no_life(machine: Callable[[int], Machine]) -> None:
    """One more sign of it may come; two are of somebody who lives."""
    one, two = machine(1), machine(2)
    one.start()
    one.join()
    one.tell()
    two.start()
    two.join()
    one.tell()
    assert joined_in(two)[1].error is None


def test_others_and_a_clean_end_are_no_matter(
    machine: Callable[[int], Machine], medium: ModelMedium
) -> None:
    """Whoever has another name; and who stopped has left no line."""
    one, two, three = machine(1), machine(2), machine(3)
    one.start(name="b")
    one.join()
    one.tell()
    two.start()
    assert joined_in(two)[0] == 0.0
    two.tell()
    two.worker.close()
    assert list(medium.waiters) == ["b"]
    three.start()
    assert joined_in(three)[0] == 0.0


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"directory": "/node1"}'])
def test_a_file_that_says_nothing_is_none(
    machine: Callable[[int], Machine], content: bytes
) -> None:
    """It is an aid: without it one is watched."""
    one = machine(1)
    one.start()
    one.join()
    one.tell()
    file = one.disk.open(one.directory / FILE_NAME, create=True)
    file.truncate(0)
    file.write(content, 0)
    one.start()
    assert isinstance(one.join().error, UnreachableError)


def test_a_copy_of_a_directory_is_another_one(tmp_path: Path) -> None:
    """By the number that its file system gives it, and by the machine."""
    (tmp_path / "one").mkdir()
    (tmp_path / "machine-id").write_text("m1\n")
    of_a_machine = stamp_of(tmp_path / "one", tmp_path / "machine-id")
    assert of_a_machine.startswith("m1:")
    assert stamp_of(tmp_path / "one", tmp_path / "none").startswith(":")
    (tmp_path / "two").mkdir()
    assert stamp_of(tmp_path / "one") == stamp_of(tmp_path / "one")
    assert stamp_of(tmp_path / "one") != stamp_of(tmp_path / "two")
    (tmp_path / "one").rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError):
        stamp_of(tmp_path / "one")


class Life:
    """Machines whose brokers have one name, killed and started at any time, from a seed."""

    def __init__(self, seed: int) -> None:
        medium, self.passage = ModelMedium(), DirectPassage()
        self.machines = [Machine(medium, self.passage, it) for it in (1, 2, 3)]
        self.chance = random.Random(seed)
        self.alive: set[int] = set()
        self.alive_at = 0.0
        """When one lived last."""
        self.joining: dict[int, float] = {}
        """Since when."""
        self.next_tell: dict[int, float] = {}
        self.late: list[tuple[float, Callable[[], Report]]] = []
        """What a killed one had on its way, and when it arrives."""
        self.refused = 0

    def pass_time(self, seconds: float, *, is_calm: bool) -> None:
        """Let time pass; whoever is off or was refused is started again by its supervisor."""
        until = self.passage.now + seconds
        while self.passage.now < until:
            self.passage.wait(0.25)
            if self.alive:
                self.alive_at = self.passage.now
            self._arrive()
            for number in range(len(self.machines)):
                self._step(number, is_calm=is_calm)

    def _step(self, number: int, *, is_calm: bool) -> None:
        machine, now, lot = self.machines[number], self.passage.now, self.chance.random()
        if number in self.joining:
            error = machine.join().error
            if not isinstance(error, UnreachableError):
                self._joined(number, self.joining.pop(number), error)
        elif number not in self.alive:
            if is_calm or lot < 0.1:
                machine.start()
                self.joining[number] = now
        elif not is_calm and lot < 0.03:
            self.alive.discard(number)
            if lot < 0.015:
                late = self.chance.uniform(0, 4 * TELL_SECONDS)
                self.late.append((now + late, machine.telling()))
        elif now >= self.next_tell[number]:
            machine.tell()
            self.next_tell[number] = now + TELL_SECONDS

    def _joined(self, number: int, since: float, error: StoreError | None) -> None:
        if error is None:
            self.alive.add(number)
            self.next_tell[number] = self.passage.now
        else:
            self.refused += 1
            assert self.alive_at >= since, "it was refused for nobody"

    def _arrive(self) -> None:
        """A process that has ended left one call that takes effect later."""
        due = [it for when, it in self.late if when <= self.passage.now]
        self.late = [it for it in self.late if it[0] > self.passage.now]
        for tell in due:
            tell()


def lived(seed: int) -> Life:
    """Half a minute of trouble, and as much of calm; gives what there was."""
    life = Life(seed)
    life.pass_time(30.0, is_calm=False)
    life.pass_time(30.0, is_calm=True)
    assert life.alive, "all have refused each other"
    return life


def test_whenever_they_come_and_go_one_is_left_and_nobody_is_refused_for_a_dead_one() -> None:
    """Sixty seeds: three machines of one name, killed, started and refused at any time."""
    assert sum(lived(seed).refused for seed in range(60)) > 30


def test_one_sign_of_life_may_be_of_a_dead_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it believed, some would be refused where nobody lives."""
    monkeypatch.setattr(namesakes_module, "_BEATS_ON_THE_WAY", 0)
    with pytest.raises(AssertionError, match="refused for nobody"):
        for seed in range(200):
            lived(seed)
