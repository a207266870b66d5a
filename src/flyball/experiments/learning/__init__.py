"""Judges learned policies on what they never saw, and searches for hyper-parameters."""
