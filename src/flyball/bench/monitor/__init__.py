"""Measurements of monitoring: what it costs, and whether its figures are right."""
