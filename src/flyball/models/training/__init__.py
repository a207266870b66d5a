"""Training steps: measured variants of a step, and recomputation of activations under a budget."""
