"""Target shares: the linear programmes that set them, the rounds that turn them into runs."""
