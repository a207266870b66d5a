"""Runs jobs on this machine: an engine, one spawner, and a supervisor per job.

The engine (`engine.py`) runs in the control plane and may use all of Flyball. The spawner and
the supervisors are forked by the thousand and outlive the control plane, so their modules
(`__main__`, `spawner`, `supervisor`, `program`, `log`, `claim`, `cgroup`, `process_limit`, `proc`,
`signals`, `steering`, `steer_file`, `governor`, `usage`) import nothing but small parts of the
standard library and each other. `docs/concept/engine.md` explains the design.
"""
