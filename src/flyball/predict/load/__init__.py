"""Forecasters of series of numbers: each is one module and one line in the registry."""
