"""Layer 1, monitoring: one small process samples the machine and its jobs and keeps the values.

`agent` runs the collectors, `store` keeps their samples in files, `reader.Telemetry` reads them.
"""
