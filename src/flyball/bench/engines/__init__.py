"""Measurements of engines on real daemons that are started for them on this machine."""
