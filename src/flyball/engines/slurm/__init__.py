"""Reads a Slurm site through its own commands, as any user may; nothing here changes anything."""
