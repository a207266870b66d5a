"""Fixtures for every test."""

from __future__ import annotations

import os

# Tests draw nothing on a screen, whatever the machine.
os.environ.setdefault("MPLBACKEND", "agg")
