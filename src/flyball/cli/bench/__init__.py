"""`flyball bench`: one file a command."""
