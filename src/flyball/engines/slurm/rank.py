"""Runs the program of a gang on one of its nodes, with the variables of torchrun.

    srun ... python -m flyball.engines.slurm.rank PROGRAM ARGUMENT...

The program is one process per node: its rank is that of the node. `torchrun train.py` without
options finds number and rank of the nodes, and where to meet, in its own variables (PET_...).
Standard library only.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_STARTED = 127


def variables(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of this node's process.

    Args:
        given: those that srun and the control plane have set.
    """
    rank, nodes = given.get("SLURM_NODEID", "0"), given.get("SLURM_NNODES", "1")
    meet, port = given.get("MASTER_ADDR", "127.0.0.1"), given.get("MASTER_PORT", "15000")
    devices = [name for name in given.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return {
        "RANK": rank,
        "GROUP_RANK": rank,
        "NODE_RANK": rank,
        "WORLD_SIZE": nodes,
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": meet,
        "MASTER_PORT": port,
        "PET_NNODES": nodes,
        "PET_NODE_RANK": rank,
        "PET_NPROC_PER_NODE": str(len(devices) or 1),
        "PET_MASTER_ADDR": meet,
        "PET_MASTER_PORT": port,
    }


def main(argv: list[str]) -> None:
    """Become the program."""
    os.environ.update(variables(os.environ))
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        os.write(2, f"flyball: could not start: {argv[0]}: {error.strerror}\n".encode())
        sys.exit(NOT_STARTED)


if __name__ == "__main__":
    main(sys.argv[1:])
