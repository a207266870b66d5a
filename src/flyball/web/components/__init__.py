"""Elements drawn in the browser."""
