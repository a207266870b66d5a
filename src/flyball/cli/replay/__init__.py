"""Commands over the twin: replay, explain, demo."""
