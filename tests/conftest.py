"""Fixtures for every test."""

from __future__ import annotations

import os

from hypothesis import settings

# Tests draw nothing on a screen, whatever the machine.
os.environ.setdefault("MPLBACKEND", "agg")

# A busy machine is no fault of the code.
settings.register_profile("flyball", deadline=None)
settings.load_profile("flyball")
