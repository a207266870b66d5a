"""`flyball trace`: describe, convert, generate and export traces."""
