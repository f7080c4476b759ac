"""Models that share a device get their shares of its time, and none of them starves."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from producer_sdk.topics import Lane
from workers.device_share import DeviceShare, Urgency, shares
from workers.runners.engine import ModelSpec
from workers.runners.policies import LANES

INTERACTIVE, BULK = Lane.INTERACTIVE, Lane.BULK


class Load(Struct):
    """A model that always has a batch due, which takes `run_s`; from `since` to `until`."""

    run_s: float
    lane: Lane = INTERACTIVE
    weight: float = 1.0
    since: float = 0.0
    until: float = float("inf")


class Device:
    """A device in virtual time: it runs the batches of one model after another, as their dispatchers would start them.

    `used` are the seconds by model, `longest_s` what its batches waited at most, `busy` the seconds of all.
    """

    def __init__(self, loads: Mapping[str, Load]) -> None:
        self.loads = loads
        self.now = 0.0
        self.used = dict.fromkeys(loads, 0.0)
        self.longest_s = dict.fromkeys(loads, 0.0)
        self.busy = 0.0
        self.share = DeviceShare()
        self._due_since: dict[str, float] = {}
        self._queue: list[str] = []
        self._woken = set(loads)
        for model, load in loads.items():
            self.share.join(model, lambda model=model: self._woken.add(model), weight=load.weight)  # type: ignore[misc]

    def run(self, seconds: float) -> None:
        ends = self.now + seconds
        while self.now < ends:
            self._start()
            if not self._queue:
                later = [load.since for load in self.loads.values() if load.since > self.now]
                if not later:
                    return
                self.now = min(later)
                self._woken.update(self.loads)
                continue
            model = self._queue.pop(0)
            run_s = self.loads[model].run_s
            self.now += run_s
            self.used[model] += run_s
            self.busy += run_s
            self.share.ended(model, run_s, self.now)
            self._woken.add(model)
            self._woken.update(model for model, load in self.loads.items() if load.since <= self.now < load.until)

    def _start(self) -> None:
        while self._woken:
            model = min(self._woken)
            self._woken.discard(model)
            load = self.loads[model]
            if not load.since <= self.now < load.until:
                self.share.waiting(model, None)
                self._due_since.pop(model, None)
                continue
            due = self._due_since.setdefault(model, self.now)
            if self.share.may_start(model, self.now, Urgency(load.lane, due)):
                self.share.started(model, self.now)
                self.longest_s[model] = max(self.longest_s[model], self.now - due)
                del self._due_since[model]
                self._queue.append(model)
                assert len(set(self._queue)) == 1
                assert len(self._queue) <= 2
                self._woken.add(model)


@given(st.floats(0.01, 0.5), st.floats(0.01, 0.5))
@settings(max_examples=20)
def test_two_models_get_half_of_the_time_each_however_long_their_batches_are(one_s: float, other_s: float) -> None:
    device = Device({"a": Load(one_s), "b": Load(other_s)})
    device.run(30.0)
    assert device.used["a"] / device.busy == pytest.approx(0.5, rel=0.1)


def test_weights_divide_the_time() -> None:
    device = Device({"a": Load(0.02, weight=3.0), "b": Load(0.1)})
    device.run(60.0)
    assert device.used["a"] / device.busy == pytest.approx(0.75, rel=0.1)


def test_three_lanes_of_three_models_get_the_lanes_weights() -> None:
    device = Device({lane.value: Load(0.01, lane) for lane in Lane})
    device.run(30.0)
    weights = sum(LANES[lane].weight for lane in Lane)
    for lane in Lane:
        assert device.used[lane.value] / device.busy == pytest.approx(LANES[lane].weight / weights, rel=0.15)


@given(st.lists(st.builds(Load, st.floats(0.05, 0.3), st.sampled_from(Lane)), min_size=2, max_size=5))
@settings(max_examples=20)
def test_the_device_is_never_idle_while_one_waits_and_nobody_starves(loads: list[Load]) -> None:
    device = Device({str(number): load for number, load in enumerate(loads)})
    device.run(150.0)
    assert device.busy == pytest.approx(device.now)
    round_s = 2 * sum(load.run_s for load in loads)
    for model, load in device.loads.items():
        assert device.used[model] > 0
        assert device.longest_s[model] <= LANES[load.lane].max_wait_s + round_s


def test_who_was_away_has_saved_nothing_up() -> None:
    device = Device({"a": Load(0.01), "b": Load(0.01, since=100.0)})
    device.run(100.0)
    before = device.used["a"]
    device.run(1.0)
    assert device.used["a"] - before == pytest.approx(0.5, abs=0.05)


def test_one_that_goes_leaves_the_device_to_the_other() -> None:
    device = Device({"a": Load(0.01), "b": Load(0.05, until=1.0)})
    device.run(3.0)
    assert device.busy == pytest.approx(3.0, abs=0.1)
    assert device.used["b"] < 0.7


def test_an_interactive_batch_goes_before_the_next_bulk_batch() -> None:
    device = Device({"bulk": Load(0.1, BULK), "chat": Load(0.01, since=5.05)})
    device.run(5.3)
    assert device.longest_s["chat"] <= 0.2


def test_the_next_batch_is_prepared_behind_the_running_one_only_while_nobody_else_waits() -> None:
    share, woken = DeviceShare(), list[str]()
    for model in "ab":
        share.join(model, lambda model=model: woken.append(model))  # type: ignore[misc]
    urgency = Urgency(INTERACTIVE, 0.0)
    for _ in range(2):
        assert share.may_start("a", 0.0, urgency)
        share.started("a", 0.0)
    assert not share.may_start("a", 0.0, urgency)
    assert not share.may_start("b", 0.0, urgency)
    share.ended("a", 0.1, 0.1)
    assert not share.may_start("a", 0.1, urgency)
    assert woken == []
    share.ended("a", 0.1, 0.2)
    assert (woken, share.may_start("b", 0.2, urgency)) == (["b"], True)


@pytest.mark.parametrize(("now", "first"), [(59.0, False), (60.0, True)])
def test_what_has_waited_its_lanes_limit_goes_before_all_that_have_not(now: float, first: bool) -> None:
    share = DeviceShare()
    for model in "ab":
        share.join(model, lambda: None)
    assert share.may_start("b", 0.0, Urgency(BULK, 0.0))
    share.started("b", 0.0)
    share.ended("b", 100.0, 0.0)
    share.waiting("a", Urgency(INTERACTIVE, now))
    assert share.may_start("b", now, Urgency(BULK, 0.0)) is first


def test_who_withdraws_wakes_those_that_waited_for_it() -> None:
    share, woken = DeviceShare(), list[str]()
    for model in "ab":
        share.join(model, lambda model=model: woken.append(model))  # type: ignore[misc]
    share.waiting("a", Urgency(INTERACTIVE, -1.0))
    assert not share.may_start("b", 0.0, Urgency(BULK, 0.0))
    woken.clear()
    share.waiting("a", None)
    assert woken == ["b"]
    assert share.may_start("b", 0.0, Urgency(BULK, 0.0))


def test_two_that_let_each_other_go_first_do_not_both_wait_for_ever() -> None:
    share, woken = DeviceShare(), list[str]()
    for model in "ab":
        share.join(model, lambda model=model: woken.append(model))  # type: ignore[misc]
    limit_s = LANES[BULK].max_wait_s
    older, younger = Urgency(BULK, 0.0), Urgency(BULK, 1.0)
    assert share.may_start("a", 0.0, older)
    share.started("a", 0.0)
    assert not share.may_start("b", 1.0, younger)
    share.ended("a", limit_s - 1.0, limit_s - 1.0)
    woken.clear()
    assert not share.may_start("a", limit_s - 0.1, older)  # it has used the device, and is not overdue yet
    assert not share.may_start("b", limit_s + 0.1, younger)  # but by now it is
    assert woken == ["b", "a"]
    assert share.may_start("a", limit_s + 0.2, older)


def model(name: str, device: str, threads: int = 1, replicas: int = 1) -> ModelSpec:
    return ModelSpec(name, "1", Path("."), "python", device, threads=threads, replicas=replicas)


@pytest.mark.parametrize(
    ("specs", "shared"),
    [
        ([model("a", "cuda:0"), model("b", "cuda:0")], {"cuda:0"}),
        ([model("a", "cuda:0"), model("b", "cuda:1")], set()),
        ([model("a", "cpu", 2), model("b", "cpu", 2)], set()),
    ],
)
def test_only_models_that_would_be_in_each_others_way_share(specs: list[ModelSpec], shared: set[str]) -> None:
    assert shares(specs).keys() == shared
