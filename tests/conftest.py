"""Fixtures for every test."""

from __future__ import annotations

import os

from hypothesis import Phase, settings

# Tests draw nothing on a screen, whatever the machine.
os.environ.setdefault("MPLBACKEND", "agg")

# A busy machine is no fault of the code. Cutting a failure down may take many minutes where each
# case is a simulation, so it is done only when asked for: FLYBALL_SHRINK=1.
PHASES = [Phase.explicit, Phase.reuse, Phase.generate]
if os.environ.get("FLYBALL_SHRINK"):
    PHASES.append(Phase.shrink)
settings.register_profile("flyball", deadline=None, phases=PHASES, print_blob=True)
settings.load_profile("flyball")
