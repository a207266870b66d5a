"""Rewrites of a model's graph: one file a pass, and the cost model that counts what they change."""
