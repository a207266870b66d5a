"""From the live state to a plan: columns for the kernel, the decision, tuning, verification."""
