"""Models for tests and benchmarks, written in plain torch with random weights."""
