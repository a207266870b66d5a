"""Commands that run the twin: replay, explain, demo."""
