"""Paired experiments on what predictions are worth: the same runs with and without them."""
