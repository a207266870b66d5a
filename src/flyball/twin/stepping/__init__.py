"""Stepping for learners: other knobs, an observation, many twins at once, cheap forks."""
