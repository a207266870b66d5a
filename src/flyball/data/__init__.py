"""Figures that ship with Flyball, with sources. See `physics.catalogue` and `physics.speed`."""
