"""The command line: a thin layer over `app` and `experiments`, one file per command or group.

A new command is a file and a line in the table of `main.py`, or of its group (`bench/group.py`,
`predict/group.py`, ...). Only the module of the command that is called is imported. Modules here
import only Typer and light modules at the top, and everything else inside the command, so that
`--help` is fast.
"""
