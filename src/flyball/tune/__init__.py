"""Layer 4: tuners change a plan for the better. Pure, in rounds, without a memory of their own."""
