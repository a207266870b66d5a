"""Measurements of the live system: rates, cycles, memory, recovery, speed of jobs."""
