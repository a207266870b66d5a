"""Known models: their classes, and that their figures are those that were measured."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from statistics import median

import pytest

from flyball.core.errors import DataAbsent
from flyball.core.shared_data import shared_data
from flyball.core.workload import JobClass
from flyball.physics import measured
from flyball.schedule.classify import classify_one
from flyball.schedule.classify.models import ALIASES, OTHERS, SIA, facts, known

HARDWARE = {"V100": "azure", "A100": "dgx-ext", "RTX6000": "quad", "RTX2080Ti": "rtx"}


@pytest.mark.parametrize(
    ("model", "kind", "least"),
    [
        ("ResNet-18 (batch size 32)", JobClass.COMPUTE_INTENSIVE, 0.9),
        ("ResNet-50:64", JobClass.COMPUTE_INTENSIVE, 0.9),
        ("CycleGAN", JobClass.COMPUTE_INTENSIVE, 0.9),
        ("Transformer", JobClass.MIXED, 0.7),
        ("LM", JobClass.BANDWIDTH_LIMITED, 0.9),
        ("Recommendation:512", JobClass.MEMORY_BOUND, 0.9),
        ("A3C", JobClass.LATENCY_SENSITIVE, 0.6),
        ("bert", JobClass.COMPUTE_INTENSIVE, 0.8),
        ("imagenet", JobClass.COMPUTE_INTENSIVE, 0.9),
        ("cifar10", JobClass.COMPUTE_INTENSIVE, 0.9),
        ("deepspeech2", JobClass.MIXED, 0.4),
        ("ncf", JobClass.MEMORY_BOUND, 0.9),
        ("yolov3", JobClass.MIXED, 0.4),
        ("GPT-2", JobClass.COMPUTE_INTENSIVE, 0.9),
        ("vgg16", JobClass.COMPUTE_INTENSIVE, 0.5),
        ("Inception-v3", JobClass.COMPUTE_INTENSIVE, 0.7),
    ],
)
def test_classes_of_known_models(model: str, kind: JobClass, least: float) -> None:
    verdict = classify_one(model=model)
    assert verdict.kind is kind
    assert verdict.confidence > least


def test_every_measured_model_is_known() -> None:
    for key in measured.models():
        model = facts(key.text)
        assert model is not None
        assert model.label == key.model.lower()


def test_every_alias_leads_to_a_model() -> None:
    assert set(ALIASES.values()) <= set(known())
    assert not set(ALIASES) & set(known())


def test_a_reason_has_the_numbers() -> None:
    # LM, V100 over K80: 4.28, 3.43, 3.78, 3.93, 4.66 for its five batch sizes.
    # 6 x 0.256e9 x 20 operations over 4 x 14e6 bytes = 549.
    assert classify_one(model="LM").reason == (
        "lm: 3.9 times as fast on V100 as on K80, 23 % of its speed when spread over nodes, "
        "549 FLOP per byte of gradients"
    )


def test_parallel_part_by_hand() -> None:
    # By the roofline a V100 attains 22.5 TFLOP/s where a K80 attains 3.059. A job that is
    # 3.926 times as fast has the parallel part (1 - 1/3.926) / (1 - 3.059/22.5).
    model = facts("LM")
    assert model is not None
    assert model.faster["V100"] == pytest.approx(3.926, abs=0.01)
    assert model.parallel == pytest.approx((1 - 1 / 3.93) / (1 - 3.059 / 22.5), abs=0.002)


def test_a_job_slower_on_the_faster_device_has_no_parallel_part() -> None:
    model = facts("Recommendation")
    assert model is not None
    assert model.parallel == 0.0


def steps() -> dict[tuple[str, str, str, float], float]:
    try:
        path = shared_data("sia_pollux", "placements.csv.gz")
    except DataAbsent as absent:
        pytest.skip(str(absent))
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return {
            (row["application"], row["cluster"], row["placement"], float(row["local_bsz"])): float(
                row["step_time_s"]
            )
            for row in csv.DictReader(file)
        }


def test_the_figures_of_sia_are_its_measurements() -> None:
    step_s = steps()
    for name, model in OTHERS.items():
        if model.source != SIA:
            continue
        on_t4 = {place: time for place, time in step_s.items() if place[:2] == (name, "aws")}
        for device, times in model.faster.items():
            ratios = [
                time / step_s[name, HARDWARE[device], "1", batch]
                for (_, _, place, batch), time in on_t4.items()
                if place == "1" and (name, HARDWARE[device], "1", batch) in step_s
            ]
            assert median(ratios) == pytest.approx(times, abs=0.006), (name, device)
        spread = [
            time / on_t4[name, "aws", apart, batch]
            for (_, _, place, batch), time in on_t4.items()
            for apart in {"2": ("11",), "4": ("22", "1111")}.get(place, ())
            if (name, "aws", apart, batch) in on_t4
        ]
        assert median(spread) == pytest.approx(model.spread, abs=0.006), name


def test_the_page_quotes_what_is_known() -> None:
    page = (Path(__file__).parents[2] / "docs" / "concept" / "classes.md").read_text("utf-8")
    for model in known().values():
        verdict = classify_one(model=model.label)
        cells = (
            model.label,
            "-" if model.parallel is None else f"{model.parallel:.2f}",
            "-" if model.spread is None else f"{model.spread:.2f}",
            "-" if model.flop_per_byte is None else f"{model.flop_per_byte:,.0f}",
            verdict.kind.label,
            f"{verdict.confidence:.2f}",
        )
        assert f"| {' | '.join(cells)} |" in page
