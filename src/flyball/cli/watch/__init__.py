"""Commands that advise on a queue which somebody else runs."""
