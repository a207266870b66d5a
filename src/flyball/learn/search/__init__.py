"""Searches for hyper-parameters: genetic, random, particle swarm, all at the same budget."""
