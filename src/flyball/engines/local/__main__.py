"""Runs the spawner: `python -I -S .../engines/local`, without loading any other part of Flyball.

A folder given to Python is its module path; the folder above takes its place, so that the
modules here are those of a package named `local` and find each other.
"""

import importlib
import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
importlib.import_module("local.spawner").main(sys.argv[1:])
