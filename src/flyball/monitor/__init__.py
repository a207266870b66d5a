"""Layer 1: what the machine and its jobs do, sampled by one small process and kept in files.

`agent` runs the collectors, `store` keeps what they saw, `reader.Telemetry` gives it to the rest.
"""
