"""Target shares: linear programmes compute them, rounds turn them into running jobs."""
