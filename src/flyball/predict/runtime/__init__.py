"""How long will a job run? Quantiles from what it asks for and from jobs that came before it."""
