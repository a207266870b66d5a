"""What the control plane expects, learnt beside it in a process of its own."""
