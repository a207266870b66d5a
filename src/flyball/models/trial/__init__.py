"""Measures one model of the zoo, or one layer, in a process of its own for `bench models`."""
