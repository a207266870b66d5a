"""Environments for learners: what a policy sees and may do, and the twin that it does it to."""
