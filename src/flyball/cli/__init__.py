"""The command line: thin, over `app` and `bench`. One file per command or group of commands.

Modules here import only Typer and the errors at the top, everything else inside the command,
so that `flyball --help` answers at once.
"""
