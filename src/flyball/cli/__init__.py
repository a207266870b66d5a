"""The command line: thin, over `app` and `bench`. One file per command or group of commands.

A new command is its file and a line in the table of `main.py`, or of its group (`bench.py`,
`predict.py`, ...): only the module of the command that is called is imported. Modules here import
only Typer and the errors at the top, everything else inside the command, so that help answers at
once.
"""
