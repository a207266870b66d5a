"""Layer 2: what is coming. `docs/concept/prediction.md` explains the words and the measures."""
