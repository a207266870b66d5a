"""Names that clusters give to GPUs and to slices of them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from flyball.twin.traces.gpus import Share, Slice, device_of, gathered, slice_of


@pytest.mark.parametrize(
    ("text", "device"),
    [
        ("a100", "A100"),
        ("A100-SXM4-40GB", "A100-40GB"),
        ("nvidia_a100_80gb_pcie", "A100"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-40GB"),
        ("a100_3g.20gb", "A100"),
        ("NVIDIA-H100-80GB-HBM3", "H100"),
        ("tesla_v100-sxm2-32gb", "V100-32GB"),
        ("Tesla-V100-SXM2-16GB", "V100"),
        ("v100", "V100"),
        ("nvidia-tesla-t4", "T4"),
        ("NVIDIA-A10G", "A10"),
        ("GeForce-RTX-2080-Ti", "RTX2080Ti"),
        ("rtx_6000", "RTX6000"),
        ("AMD_Instinct_MI250", "MI250"),
        ("rtx_6000_ada", ""),  # another generation
        ("rtx_a6000", ""),
        ("v100s-pcie-32gb", ""),
        ("h200", ""),
        ("3g.20gb", ""),
        ("", ""),
    ],
)
def test_device_names(text: str, device: str) -> None:
    assert device_of(text) == device


def test_slices() -> None:
    assert slice_of("nvidia.com/mig-1g.5gb") == Slice(Fraction(1, 7), 5)
    assert slice_of("h100_3g.40gb") == Slice(Fraction(3, 7), 40)
    assert slice_of("7g.80gb") == Slice(Fraction(1), 80)
    assert slice_of("2g.12gb") == Slice(Fraction(2, 4), 12)  # an A30 has four parts
    assert slice_of("a100") is None


@pytest.mark.parametrize(
    ("slices", "share"),
    [
        ([("1g.5gb", 1)], Share(1, 142, 5 * 1024)),
        ([("1g.5gb", 7)], Share(1, 1000, 35 * 1024)),
        ([("1g.5gb", 8)], Share(2, 571, 20 * 1024)),
        ([("3g.20gb", 1), ("4g.20gb", 1)], Share(1, 1000, 40 * 1024)),
        ([("2g.10gb", 2)], Share(1, 571, 20 * 1024)),
    ],
)
def test_slices_on_few_devices(slices: list[tuple[str, int]], share: Share) -> None:
    found = [(each, count) for text, count in slices if (each := slice_of(text))]
    assert gathered(found) == share


def test_seven_slices_fit_one_device() -> None:
    assert 7 * gathered([(Slice(Fraction(1, 7), 5), 1)]).milli <= 1000
