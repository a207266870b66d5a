"""`flyball learn`: policies that choose the scheduler's knobs by what they see."""
