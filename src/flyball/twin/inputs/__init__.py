"""What a replay reads: cluster files, node lists and traces."""
