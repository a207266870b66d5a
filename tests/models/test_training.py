"""Training steps: equal gradients, smaller memory, and state that survives."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from flyball.core.errors import BadInput
from flyball.models import optimize_training
from flyball.models.measure import relative_error
from flyball.models.training.memory import Peak
from flyball.models.training.products import use_onednn
from flyball.models.training.recompute import Unit, choose_units
from flyball.models.training.search import peak_memory
from flyball.models.training.step import (
    Step,
    exact_gradients,
    gradient_error,
    gradients,
    judged_error,
)
from flyball.models.zoo.registry import build


def loss(module: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(module(images), targets)


def small() -> tuple[nn.Module, tuple[Tensor, ...]]:
    torch.manual_seed(0)
    layers = [
        nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()) for _ in "abcd"
    ]
    module = nn.Sequential(
        nn.Conv2d(3, 4, 1), nn.Sequential(*layers), nn.Flatten(), nn.Linear(256, 5)
    )
    return module, (torch.randn(8, 3, 8, 8), torch.randint(0, 5, (8,)))


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_variants_have_equal_gradients_and_train_alike(kind: type[torch.optim.Optimizer]) -> None:
    module, batch = small()
    plain, _ = small()
    optimizer, other = kind(module.parameters(), lr=1e-2), kind(plain.parameters(), lr=1e-2)  # type: ignore[call-arg]
    result = optimize_training(module, optimizer, loss, batch)
    tried = {one.name: one for one in result.candidates}
    assert tried["fused-optimizer"].status == "equal"
    assert tried["channels-last"].status == "equal"
    assert tried["onednn-products"].status == "equal"
    step = Step(plain.train(), other, loss)
    for _ in range(3):
        assert abs(float(result(*batch)) - float(step(*batch))) < 1e-3


def test_flips_of_a_relu_are_rounding_but_another_gradient_is_not() -> None:
    module, batch = small()
    eager = Step(module.train(), torch.optim.SGD(module.parameters(), lr=1.0), loss)
    expected = gradients(eager, batch)
    noise = torch.Generator().manual_seed(0)
    exact = exact_gradients(eager, batch)
    assert all(one.dtype == torch.float64 for one in exact)

    def shaken(size: float) -> list[Tensor]:
        return [
            one + size * one.abs().max() * torch.randn(one.shape, generator=noise)
            for one in expected
        ]

    # Single entries are beyond what is equal; all together are not, and the exact ones are equal.
    assert gradient_error(expected, shaken(5e-5)) > 1e-4
    assert judged_error(expected, shaken(5e-5), eager, eager.copy(), batch, 1e-4) < 1e-9
    assert judged_error(expected, shaken(1e-2), eager, eager.copy(), batch, 1e-4) > 1e-3
    other = eager.copy()
    other.loss = lambda module, *inputs: 1.001 * loss(module, *inputs)
    changed = gradients(other, batch)
    assert judged_error(expected, changed, eager, other, batch, 1e-4) > 5e-4


def test_onednn_products_have_the_gradients_of_linear_layers() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(6, 5), nn.GELU(), nn.Linear(5, 4, bias=False))
    other = copy.deepcopy(plain)
    assert use_onednn(other) == ""
    assert [name for name, _ in other.named_parameters()] == [
        n for n, _ in plain.named_parameters()
    ]
    x = torch.randn(3, 7, 6)
    first, second = x.clone().requires_grad_(), x.clone().requires_grad_()
    plain(first).square().sum().backward()
    other(second).square().sum().backward()
    assert first.grad is not None and second.grad is not None
    assert relative_error((first.grad,), (second.grad,)) < 1e-5
    for left, right in zip(plain.parameters(), other.parameters(), strict=True):
        assert left.grad is not None and right.grad is not None
        assert relative_error((left.grad,), (right.grad,)) < 1e-5
    assert other.double()(x.double()).dtype == torch.float64
    assert use_onednn(nn.Sequential(nn.ReLU())) == "it has no linear layer"


def test_the_module_given_is_not_trained_by_the_search() -> None:
    module, batch = small()
    before = [parameter.detach().clone() for parameter in module.parameters()]
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0, momentum=0.9)
    optimize_training(module, optimizer, loss, batch)
    after = [parameter.detach() for parameter in module.parameters()]
    assert relative_error(before, after) == 0.0
    assert not optimizer.state


def test_a_copied_step_shares_nothing_and_continues_alike() -> None:
    module, batch = small()
    step = Step(module.train(), torch.optim.AdamW(module.parameters(), lr=1e-2), loss)
    step(*batch)
    copied = step.copy()
    assert float(step(*batch)) == float(copied(*batch))
    assert float(step(*batch)) == float(copied(*batch))
    assert next(step.module.parameters()) is not next(copied.module.parameters())


def test_recomputation_saves_memory_and_keeps_gradients() -> None:
    module, (image,) = build("unet", width=4, image=32, batch=2)
    batch = (image, torch.randint(0, 2, (2, 32, 32)))
    step = Step(module.train(), torch.optim.SGD(module.parameters(), lr=0.0), loss)
    expected = gradients(step, batch)
    plain_bytes = peak_memory(step, batch)
    result = optimize_training(
        module, step.optimizer, loss, batch, variants=(), activation_budget_bytes=0
    )
    assert result.recomputed
    assert gradient_error(expected, gradients(result.step, batch)) < 1e-4
    saved_bytes = peak_memory(result.step, batch)
    assert saved_bytes < 0.9 * plain_bytes


def test_units_are_recomputed_until_the_budget_holds() -> None:
    units = [Unit("a", 10), Unit("b", 30), Unit("c", 20)]
    assert choose_units(units, 60) == []
    # `b` is needed once more while it is recomputed, so it alone saves nothing of the peak.
    assert choose_units(units, 59) == ["b", "c"]
    assert choose_units(units, 0) == ["b", "c", "a"]


def test_peak_follows_memory_until_nothing_refers_to_it() -> None:
    with Peak() as peak:
        first = torch.ones(1000)
        second = first + 1
        view = second.reshape(10, 100)
        del first
        third = view * 2
        del second, view, third
    assert peak.peak_bytes == 8000
    assert peak.alive_bytes == 0


def test_bad_requests_are_refused() -> None:
    module, batch = small()
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    with pytest.raises(BadInput, match="unknown variant"):
        optimize_training(module, optimizer, loss, batch, variants=("fast",))
    with pytest.raises(BadInput, match="is negative"):
        optimize_training(module, optimizer, loss, batch, variants=(), activation_budget_bytes=-1)
