"""Layer 4: tuners improve a plan. They are pure, run in rounds and keep no state."""
