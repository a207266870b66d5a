"""Names that clusters give to GPUs and to slices of them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from flyball.twin.inputs.traces.gpus import GpuShare, GpuSlice, device_of, gathered, slice_of


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
        ("rtx_6000_ada", "RTX6000Ada"),
        ("rtx_a6000", "RTXA6000"),
        ("v100s-pcie-32gb", ""),
        ("h200", "H200"),
        # as `nvidia-smi` writes them
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"),
        ("NVIDIA A800-SXM4-80GB", "A800"),
        ("NVIDIA A40", "A40"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GeForce RTX 3090", "RTX3090"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA GeForce RTX 5090", "RTX5090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", ""),
        ("NVIDIA H20", "H20"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA H200 NVL", "H200"),
        ("NVIDIA H800", "H800"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000Ada"),
        ("NVIDIA RTX A6000", "RTXA6000"),
        ("Orin (nvgpu)", "JetsonOrin"),
        ("Quadro RTX 6000", "RTX6000"),
        # as Slurm's gres writes them
        ("nvidia_h200", "H200"),
        ("nvidia_geforce_rtx_4090", "RTX4090"),
        ("nvidia_rtx_a6000", "RTXA6000"),
        ("nvidia_h100_80gb_hbm3_1g.10gb", "H100"),
        ("mi300x", "MI300X"),
        # as labels of Kubernetes nodes write them
        ("NVIDIA-L40S", "L40S"),
        ("NVIDIA-H200-MIG-1g.18gb", "H200"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "A100"),
        ("NVIDIA-GeForce-RTX-3090-SHARED", "RTX3090"),
        ("AMD_Instinct_MI300X_OAM", "MI300X"),
        ("AMD_Instinct_MI325X", "MI325X"),
        ("AMD_Instinct_MI210", "MI210"),
        ("nvidia-l4", "L4"),
        ("nvidia-tesla-a100", "A100-40GB"),
        ("nvidia-a100-80gb", "A100"),
        ("nvidia-h100-80gb", "H100"),
        ("nvidia-h100-mega-80gb", "H100"),
        ("nvidia-h200-141gb", "H200"),
        ("nvidia-b200", "B200"),
        ("tpu-v4-podslice", "TPUv4"),
        ("tpu-v5-lite-podslice", "TPUv5e"),
        ("tpu-v5-lite-device", "TPUv5e"),
        ("tpu-v5p-slice", "TPUv5p"),
        ("tpu-v6e-slice", "TPUv6e"),
        ("HL-225", "Gaudi2"),
        ("gaudi3", "Gaudi3"),
        ("trainium", "Trainium1"),
        ("trn2", "Trainium2"),
        ("inferentia2", "Inferentia2"),
        ("3g.20gb", ""),
        ("", ""),
    ],
)
def test_device_names(text: str, device: str) -> None:
    assert device_of(text) == device


def test_slices() -> None:
    assert slice_of("nvidia.com/mig-1g.5gb") == GpuSlice(Fraction(1, 7), 5)
    assert slice_of("h100_3g.40gb") == GpuSlice(Fraction(3, 7), 40)
    assert slice_of("7g.80gb") == GpuSlice(Fraction(1), 80)
    assert slice_of("2g.12gb") == GpuSlice(Fraction(2, 4), 12)  # an A30 has four parts
    assert slice_of("a100_1g.5gb") == GpuSlice(Fraction(1, 7), 5)
    assert slice_of("nvidia_a100-sxm4-80gb_1g.10gb") == GpuSlice(Fraction(1, 7), 10)
    assert slice_of("nvidia.com/mig-1g.18gb") == GpuSlice(Fraction(1, 7), 18)  # H200
    assert slice_of("nvidia.com/mig-1g.10gb.me") == GpuSlice(Fraction(1, 7), 10)
    assert slice_of("nvidia.com/mig-4g.24gb") == GpuSlice(Fraction(1), 24)
    assert slice_of("a100") is None


@pytest.mark.parametrize(
    ("slices", "share"),
    [
        ([("1g.5gb", 1)], GpuShare(1, 142, 5 * 1024)),
        ([("1g.5gb", 7)], GpuShare(1, 1000, 35 * 1024)),
        ([("1g.5gb", 8)], GpuShare(2, 571, 20 * 1024)),
        ([("3g.20gb", 1), ("4g.20gb", 1)], GpuShare(1, 1000, 40 * 1024)),
        ([("2g.10gb", 2)], GpuShare(1, 571, 20 * 1024)),
    ],
)
def test_slices_on_few_devices(slices: list[tuple[str, int]], share: GpuShare) -> None:
    parsed = [(slice_, count) for text, count in slices if (slice_ := slice_of(text))]
    assert gathered(parsed) == share


def test_seven_slices_fit_one_device() -> None:
    assert 7 * gathered([(GpuSlice(Fraction(1, 7), 5), 1)]).milli <= 1000
