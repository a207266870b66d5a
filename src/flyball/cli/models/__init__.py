"""Commands for users' models."""
