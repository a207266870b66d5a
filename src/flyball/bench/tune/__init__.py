"""Measurements of the tuners: speed of a round, and real jobs on this machine."""
