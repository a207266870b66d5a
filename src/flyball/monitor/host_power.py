"""The power draw of a host where it is not measured: as stated by the user, else catalogued."""

from __future__ import annotations

import math

from flyball.core.errors import BadInput
from flyball.monitor.sensor import HostPower

CORE = "CPU1"


def host_power(text: str) -> HostPower:
    """Parse `60:200`: watts of the idle host and of the fully used one.

    Raises:
        BadInput: anything else.
    """
    try:
        idle_w, peak_w = map(float, text.split(":"))
    except ValueError:
        idle_w = peak_w = math.nan
    if not 0 <= idle_w <= peak_w < 1e6:
        raise BadInput(f"--host-watts {text!r} is not IDLE:PEAK", "write e.g. 60:200")
    return HostPower(idle_w, peak_w, "as stated")


def catalogue_power(cores: int) -> HostPower:
    """Return the draw of a host with this many cores by the catalogue, as receipts use it."""
    from flyball.physics import catalogue
    from flyball.physics.power import host_w

    core = catalogue.get(CORE)
    rest_w = host_w(core, cores)
    keys = [core.sources[figure] for figure in ("idle_w", "peak_w", "host_w")]
    source = f"by the catalogue ({cores} x {CORE}: {', '.join(keys)}), not of this machine"
    return HostPower(rest_w + cores * core.idle_w, rest_w + cores * core.peak_w, source)
