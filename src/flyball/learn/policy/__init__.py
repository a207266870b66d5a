"""Serves a learned policy without torch: its file, its forward pass, its guard, its governor."""
