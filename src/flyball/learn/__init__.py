"""What is learnt from the journal, beside the control plane: run times, load, how jobs scale."""
