"""Policies compared over scenarios and seeds, with lower bounds beside."""
