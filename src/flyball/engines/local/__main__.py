"""Runs the spawner: `python -I -S .../engines/local`, without loading any other part of Flyball.

Python puts the folder that it runs on its module path; this replaces it by the parent folder, so
that the modules here form a package named `local` and can import each other.
"""

import importlib
import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
importlib.import_module("local.spawner").main(sys.argv[1:])
