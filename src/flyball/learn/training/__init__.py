"""Trains policies: problems to train on, trainers, what is kept of a run, and its curves."""
