"""A real Slurm cluster for the tests of this folder, one for each worker that needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flyball.bench.engines.slurm_cluster import HOW_TO_GET, SlurmCluster, missing


@pytest.fixture(scope="module")
def running_slurm() -> Iterator[SlurmCluster]:
    if absent := missing():
        pytest.skip(f"{', '.join(absent)} not installed; {HOW_TO_GET}")
    with SlurmCluster(nodes=4, cpus=4, gpus=2) as cluster:
        yield cluster


@pytest.fixture
def slurm(running_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    """The cluster without jobs; our own commands in this process see it."""
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, running_slurm.environment[name])
    yield running_slurm
    running_slurm.cancel_all()
