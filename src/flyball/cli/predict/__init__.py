"""`flyball predict`: one file a group of commands."""
