"""`flyball predict`: one file per group of commands."""
