"""Layer 2: predictions. `docs/concept/prediction.md` explains the terms and the measures."""
