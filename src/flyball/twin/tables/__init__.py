"""Tables of a run, written into the state before its first event."""
