"""Forecasters of series of numbers: one file each, one contract, one line in the registry."""
