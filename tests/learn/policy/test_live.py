"""Serving on a live cluster: choices are recorded, made again, shown, and guarded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.control.live_cases import TWO_NODES, Rig
from tests.learn.policy.policy_files import always, conv_lstm

from flyball.control.ask.bills import Prices
from flyball.control.decide.verify import Verifier
from flyball.core.events import Capped, Decided
from flyball.core.signals import DAY_US, Signal
from flyball.learn.env.spaces import INCUMBENT, Vector
from flyball.learn.policy.artifact import PolicyFile, read, write
from flyball.learn.policy.forward import Mask, Net, Output
from flyball.learn.policy.governor import Governor, default_priorities
from flyball.learn.policy.live import LiveGovernor

PRICES = Prices(price=Signal.profile([0.05, 0.3] * 12, DAY_US))


def _file(folder: Path, tensors: dict[str, Vector], kind: str = "mlp") -> PolicyFile:
    path = folder / "policy.safetensors"
    write(path, tensors, {"kind": kind, "epoch_s": 300})
    return read(path)


def _rig(
    folder: Path, make: Callable[[], Net], limit_s: float | None = None, tries: bool = True
) -> Rig:
    priorities = default_priorities(True, False)

    def governs() -> LiveGovernor:
        return LiveGovernor(Governor(make(), priorities, limit_s, tries))

    return Rig(folder / "state", "tuned", nodes=TWO_NODES, prices=PRICES, governs=governs)


def _work(rig: Rig) -> None:
    """Run jobs for some epochs."""
    for _ in range(4):
        rig.submit(cpus=3, estimate_s=900.0, user="ada")
        rig.submit(cpus=1, estimate_s=200.0, user="ben")
        rig.submit(cpus=4, estimate_s=500.0, user="zoe")
        rig.pass_s(250)
    rig.finish()


def _choices(rig: Rig) -> list[Decided]:
    decided = [event for _seq, event in rig.events() if isinstance(event, Decided)]
    return [event for event in decided if event.learned]


def _folder(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path


def test_choices_are_recorded_and_made_again(tmp_path: Path) -> None:
    file = _file(_folder(tmp_path), conv_lstm(), "conv-lstm")
    rig = _rig(tmp_path, lambda: Net(file), tries=False)
    _work(rig)
    rig.plane.close()
    rig.open()  # the memory begins anew, here and in the repetition
    _work(rig)
    choices, verdict = _choices(rig), rig.verdict()
    assert len(choices) > 6
    assert verdict.differing == [] and verdict.choices == len(choices) and verdict.absent == 0
    for event in choices:
        assert event.learned is not None
        assert event.learned["policy"] == file.hash[:12]
    assert len({str(event.learned["knobs"]) for event in choices if event.learned}) > 2


def test_a_changed_choice_is_noticed(tmp_path: Path) -> None:
    file = _file(_folder(tmp_path), conv_lstm(), "conv-lstm")
    rig = _rig(tmp_path, lambda: Net(file))
    _work(rig)
    rig.finish()
    events = rig.events()
    at = next(
        at
        for at, (_seq, event) in enumerate(events)
        if isinstance(event, Decided) and event.learned
    )
    seq, event = events[at]
    assert isinstance(event, Decided) and event.learned is not None
    events[at] = seq, replace(event, learned={**event.learned, "epoch": 1})
    governs = rig.governs
    assert governs is not None
    verdict = Verifier(None, lambda about: governs()).follow(events)
    assert (event.number, "what the learned policy chose") in verdict.differing


def test_without_the_file_decisions_are_repeated_from_the_record(tmp_path: Path) -> None:
    file = _file(_folder(tmp_path), conv_lstm(), "conv-lstm")
    rig = _rig(tmp_path, lambda: Net(file))
    _work(rig)
    verdict = Verifier().follow(rig.events())
    assert verdict.differing == [] and verdict.absent == verdict.choices > 0


def test_the_policy_is_shown(tmp_path: Path) -> None:
    file = _file(_folder(tmp_path), always(cap=-0.4))
    rig = _rig(tmp_path, lambda: Net(file), tries=False)
    job = rig.submit(cpus=1, estimate_s=2_000.0)
    waits = rig.submit(cpus=4, estimate_s=2_000.0)
    rig.submit(cpus=4, estimate_s=2_000.0)
    rig.pass_s(400)
    learned = rig.plane.ask.why(waits)["learned"]
    assert learned["hash"] == file.hash[:12] and learned["choices"] >= 1
    assert learned["last"]["residuals"] == {"cap": -0.4}
    names = {name for name, _labels, _value in rig.plane.ask.metrics()}
    assert "flyball_policy_choices_total" in names
    caps = [event for _seq, event in rig.events() if isinstance(event, Capped)]
    assert caps and caps[0].job == job and caps[0].share == 0.8 and caps[0].who == "policy"
    assert rig.verdict().differing == []


def test_the_zero_action_decides_as_the_incumbent(tmp_path: Path) -> None:
    file = _file(_folder(tmp_path), always())
    rig = _rig(tmp_path, lambda: Net(file))
    _work(rig)
    (tmp_path / "plain").mkdir()
    plain = Rig(tmp_path / "plain", "tuned", nodes=TWO_NODES, prices=PRICES)
    _work(plain)
    for job in range(1, 13):
        assert rig.job(job).end_us == plain.job(job).end_us
    assert rig.plane.decider.knobs == INCUMBENT


# Faults -----------------------------------------------------------------------------------


class NotANumber(Net):
    def forward(self, observation: Vector, mask: Mask | None = None) -> Output:
        out = super().forward(observation, mask)
        return out._replace(q=out.q * np.float32(np.nan))


class Stalling(Net):
    def forward(self, observation: Vector, mask: Mask | None = None) -> Output:
        time.sleep(0.3)
        return super().forward(observation, mask)


@pytest.mark.parametrize(
    ("kind", "tensors", "reason", "limit_s"),
    [
        (NotANumber, always(2), "nan", None),
        (Stalling, always(2), "late", 0.001),
        (Net, always(6, cap=-0.99, ageing=0.99), "refused", None),
    ],
)
def test_a_faulty_policy_costs_nothing(
    tmp_path: Path, kind: type[Net], tensors: dict[str, Vector], reason: str, limit_s: float | None
) -> None:
    file = _file(_folder(tmp_path), tensors)
    rig = _rig(tmp_path, lambda: kind(file), limit_s)
    _work(rig)
    (tmp_path / "plain").mkdir()
    plain = Rig(tmp_path / "plain", "tuned", nodes=TWO_NODES, prices=PRICES)
    _work(plain)
    shown = rig.plane.ask.learned()
    assert shown is not None and shown["fallbacks"][reason] > 0
    last_us = max(plain.job(job).end_us for job in range(1, 13))
    epoch_us = 300_000_000
    assert max(rig.job(job).end_us for job in range(1, 13)) <= last_us + epoch_us
    rows = {
        labels["reason"]: value
        for name, labels, value in rig.plane.ask.metrics()
        if name == "flyball_policy_fallbacks_total"
    }
    assert rows[reason] == shown["fallbacks"][reason]
    assert rig.verdict().differing == []  # `late` is taken from the record
