"""Runs jobs on this machine: an engine, one spawner, and a supervisor per job.

The engine (`engine.py`) lives in the control plane and may use all of Flyball. The spawner and
the supervisors are forked by the thousand and outlive everything, so what they are made of
(`__main__`, `spawner`, `supervisor`, `program`, `log`, `claim`, `cgroup`, `crowd`, `proc`) imports
nothing but small parts of the standard library and each other. `docs/concept/engine.md` tells the
story.
"""
