"""What a job is told while it runs, and a loop that obeys."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

import flyball
from flyball.engines.local import steer_file

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of orders of a job that has none yet."""
    path = tmp_path / "orders.json"
    monkeypatch.setenv("FLYBALL_ORDERS", str(path))
    monkeypatch.setenv("FLYBALL_DEVICES", "2")
    monkeypatch.setenv("FLYBALL_CHECKPOINT_DIR", str(tmp_path / "saved"))
    return path


def tell(path: Path, what: str, **order: int) -> None:
    steer_file.put(str(path), what, order)


# Orders ---------------------------------------------------------------------------------


def test_sizes(job: Path) -> None:
    e = flyball.elastic()
    assert (e.devices, e.poll()) == (2, False)
    tell(job, "resize", sequence=1, devices=1)
    assert (e.poll(), e.devices, e.poll()) == (True, 1, False)
    tell(job, "cap", sequence=2, share=1)
    assert (e.poll(), e.devices) == (False, 1)
    tell(job, "resize", sequence=3, devices=4)
    assert (e.poll(), e.devices) == (True, 4)


def test_a_job_that_starts_again_knows_its_size(job: Path) -> None:
    tell(job, "resize", sequence=5, devices=1)
    assert flyball.elastic().devices == 1


def test_checkpoints(job: Path) -> None:
    e = flyball.elastic()
    asked = [e.should_checkpoint]
    for sequence in (1, 2):
        tell(job, "checkpoint", sequence=sequence)
        e.poll()
        asked.append(e.should_checkpoint)
        e.saved()
        asked.append(e.should_checkpoint)
    assert asked == [False, True, False, True, False]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"resize": 3}', '{"resize": {"sequence": 1}}'])
def test_nonsense_is_no_order(job: Path, text: str) -> None:
    e = flyball.elastic()
    job.write_text(text)
    assert (e.poll(), e.devices) == (False, 2)


def test_outside_flyball(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLYBALL_ORDERS")
    monkeypatch.delenv("FLYBALL_DEVICES")
    e = flyball.elastic()
    assert (e.poll(), e.devices) == (False, len(os.sched_getaffinity(0)))


def test_sigterm_is_heard_within_the_context_only() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with flyball.elastic() as e:
        os.kill(os.getpid(), signal.SIGTERM)
        assert e.should_stop
        assert e.should_checkpoint
    assert signal.getsignal(signal.SIGTERM) == before


# Loops ----------------------------------------------------------------------------------


class Loop:
    """A small net that learns from numbers drawn as it goes."""

    def __init__(self, every: int = 0, scheduled: bool = False, **more: Any) -> None:
        torch.manual_seed(1)
        random.seed(1)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)
        )
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 10) if scheduled else None
        self.schedule = schedule
        self.run = flyball.TorchCallback(self.model, self.optimizer, schedule, every=every, **more)

    def go(self, until: int) -> list[float]:
        """The losses of the steps from where it is."""
        losses = []
        with self.run:
            for _ in range(self.run.first, until):
                x = torch.randn(16, 4)
                loss = ((self.model(x).squeeze() - x.sum(1) * random.random()) ** 2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                if self.schedule is not None:
                    self.schedule.step()
                losses.append(loss.item())
                self.run.step(loss=loss.item())
        return losses


def folders(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "saved").iterdir())


@pytest.mark.parametrize("scheduled", [False, True])
def test_a_loop_goes_on_as_if_it_had_never_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheduled: bool
) -> None:
    monkeypatch.setenv("FLYBALL_CHECKPOINT_DIR", str(tmp_path / "other"))
    uninterrupted = Loop(scheduled=scheduled).go(40)
    monkeypatch.setenv("FLYBALL_CHECKPOINT_DIR", str(tmp_path / "saved"))
    first = Loop(every=10, scheduled=scheduled).go(25)
    again = Loop(every=10, scheduled=scheduled)
    assert again.run.first == 20
    rest = again.go(40)
    assert first[:20] + rest == uninterrupted, "to the last bit: random numbers and optimiser too"


def test_only_the_last_checkpoints_are_kept(tmp_path: Path) -> None:
    Loop(every=5).go(23)
    assert folders(tmp_path) == ["step-000000000015", "step-000000000020"]


def test_a_checkpoint_when_asked(tmp_path: Path, job: Path) -> None:
    loop = Loop()
    tell(job, "checkpoint", sequence=1)
    loop.go(3)
    assert folders(tmp_path) == ["step-000000000001"], "at the end of the next step, and once"


def test_a_half_written_checkpoint_does_not_count(tmp_path: Path) -> None:
    Loop(every=5).go(10)
    (tmp_path / "saved" / ".step-000000000015.new").mkdir()
    broken = tmp_path / "saved" / "step-000000000020"
    broken.mkdir()
    (broken / "state.pt").write_bytes(b"not a checkpoint")
    assert Loop().run.first == 10


def test_another_model_is_an_error(tmp_path: Path) -> None:
    Loop(every=5).go(5)
    with pytest.raises(RuntimeError):
        flyball.TorchCallback(torch.nn.Linear(3, 3))


def test_no_code_is_loaded(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "owned"),)

    evil = tmp_path / "saved" / "step-000000000005"
    evil.mkdir(parents=True)
    torch.save({"step": 5, "random": Evil()}, evil / "state.pt")
    assert Loop().run.first == 0
    assert not (tmp_path / "owned").exists()


def test_a_resize_sets_the_threads(job: Path) -> None:
    before = torch.get_num_threads()
    try:
        loop = Loop()
        assert torch.get_num_threads() == 2
        tell(job, "resize", sequence=1, devices=1)
        loop.go(2)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_the_end_is_saved(tmp_path: Path) -> None:
    loop = Loop()
    with loop.run:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(SystemExit, match="143"):
            loop.go(10)
    assert folders(tmp_path) == ["step-000000000001"]


def test_without_a_place_nothing_is_saved(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLYBALL_CHECKPOINT_DIR")
    tell(job, "checkpoint", sequence=1)
    loop = Loop(every=1)
    loop.go(2)
    assert loop.run.save() is None


def test_without_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    Loop(every=5).go(5)
    names = {path.name for path in (tmp_path / "saved" / "step-000000000005").iterdir()}
    assert names == {"state.pt"}
    assert Loop().run.first == 5


def test_orders_are_as_the_engine_writes_them(job: Path) -> None:
    tell(job, "checkpoint", sequence=3)
    assert json.loads(job.read_text()) == {"checkpoint": {"sequence": 3}}
