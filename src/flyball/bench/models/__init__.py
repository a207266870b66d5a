"""What the optimiser gains on the zoo: inference, training, memory, layers, with bars."""
