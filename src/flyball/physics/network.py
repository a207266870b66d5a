"""The slowdown of a gang that is spread over more nodes than it needs.

Between two steps a gang exchanges gradients; the time that takes is volume over
bandwidth. The volume per second of computing grows with the device's speed, and in a
ring of n devices each sends and receives 2 (n - 1) / n times the gradients.
"""

from __future__ import annotations

from flyball.core.cluster import Network
from flyball.core.errors import BadInput
from flyball.core.workload import JobClass
from flyball.physics.catalogue import DeviceType
from flyball.physics.roofline import relative_speed

DEMAND_GBIT_S = {
    JobClass.COMPUTE_INTENSIVE: 3.0,
    JobClass.MEMORY_BOUND: 6.0,
    JobClass.LATENCY_SENSITIVE: 6.0,
    JobClass.BANDWIDTH_LIMITED: 34.0,
    JobClass.MIXED: 6.0,
}
"""Volume of gradients per second of computing on the reference device. Medians that explain Gavel's
spread V100 rows if its nodes had NVLink inside (1200 Gbit/s) and 10 Gbit/s between them:
ResNet 3.0, Transformer 6.0, LM 34. Memory-bound and latency-sensitive gangs were not
measured and are taken as mixed."""


def spread_factor(device: DeviceType, kind: JobClass, count: int, network: Network) -> float:
    """Return the speed of a gang spread over nodes, as a part of its speed on one node.

    Args:
        device: type of its devices.
        kind: its workload class.
        count: devices in the gang.
        network: bandwidth inside and between nodes.

    Returns:
        In (0, 1]; exactly 1.0 for a gang of one.
    """
    inside, between = network.inside_node_gbit_s, network.between_nodes_gbit_s
    if min(inside, between) <= 0:
        raise BadInput(
            f"network of {inside} Gbit/s inside and {between} Gbit/s between nodes",
            "both must be above 0",
        )
    if count <= 1 or between >= inside:
        return 1.0
    ring = 2.0 * (count - 1) / count
    demand = DEMAND_GBIT_S[kind] * relative_speed(device, kind) * ring
    return (1.0 + demand / inside) / (1.0 + demand / between)
