"""Figures that ship, each with its source. See `physics.catalogue` and `physics.speed`."""
