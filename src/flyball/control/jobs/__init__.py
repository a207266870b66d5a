"""What is true now of each job: the live state, folded from events, and what changes it."""
