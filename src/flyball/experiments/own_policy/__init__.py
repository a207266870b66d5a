"""Policies of users: from a file, a module or a notebook, as code or as knobs."""
