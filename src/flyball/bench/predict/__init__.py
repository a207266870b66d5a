"""Measured skill and cost of predictions, each figure with its bar."""
