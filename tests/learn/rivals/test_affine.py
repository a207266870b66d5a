"""Policies without a net: served from a file they choose what they choose here."""

from pathlib import Path

import numpy as np
import pytest

from flyball.learn.env.spaces import RESIDUALS, SIZE, STRATEGIES
from flyball.learn.policy import artifact
from flyball.learn.rivals.affine import FORMS, affine_at, feature_matrix, first_point, widened
from flyball.learn.served import load_policy


@pytest.mark.parametrize("form", FORMS)
def test_at_first_a_policy_is_the_incumbent(form: str) -> None:
    policy, rng = affine_at(form, first_point(form)), np.random.default_rng(0)
    seen = rng.uniform(-2, 2, (5, SIZE)).astype(np.float32)
    strategies, residuals = policy.begin(5).choose(np.arange(5), seen, np.full(5, 3))
    assert not strategies.any() and not residuals.any()


@pytest.mark.parametrize("form", FORMS)
def test_a_file_chooses_what_the_policy_chooses(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    policy = affine_at(form, first_point(form) + rng.normal(0, 0.5, len(first_point(form))))
    ranges = {"range.low": np.full(SIZE, -9.0), "range.high": np.full(SIZE, 9.0)}
    tensors = {**policy.tensors(), **{k: v.astype(np.float32) for k, v in ranges.items()}}
    path = tmp_path / "p.safetensors"
    artifact.write(path, tensors, {"kind": "mlp", "activation": "tanh", "epoch_s": 900.0})
    seen = rng.uniform(-1, 1, (8, SIZE)).astype(np.float32)
    pools = np.array([1, 2, 3, 4, 1, 2, 3, 4])
    here = policy.begin(8).choose(np.arange(8), seen, pools)
    there = load_policy(path).begin(8).choose(np.arange(8), seen, pools)
    assert np.array_equal(here[0], there[0])
    assert np.allclose(here[1], there[1], atol=1e-4)


def test_a_wider_form_takes_up_a_narrower_policy() -> None:
    rng = np.random.default_rng(2)
    point = first_point("rule") + rng.normal(0, 0.5, len(first_point("rule")))
    seen = rng.uniform(-1, 1, (4, SIZE)).astype(np.float32)
    one = affine_at("rule", point).outputs(seen)
    assert np.allclose(affine_at("linear", widened("rule", point, "linear")).outputs(seen), one)


def test_a_fixed_setting_reads_nothing_and_the_rule_only_moves_cap_and_sleep() -> None:
    fixed = affine_at("fixed", first_point("fixed") + 0.3)
    assert not fixed.weights.any()
    names = [residual.name for residual in RESIDUALS]
    rule = affine_at("rule", first_point("rule") + 0.3)
    moved = {names[row - len(STRATEGIES)] for row in np.flatnonzero(rule.weights.any(axis=1))}
    assert moved == {"cap", "sleep_s"}


def test_every_feature_is_made_of_numbers_that_exist() -> None:
    matrix, offset = feature_matrix()
    assert matrix.any(axis=1).all() and np.isfinite(offset).all()
