"""Compares policies over scenarios and seeds, and with lower bounds."""
