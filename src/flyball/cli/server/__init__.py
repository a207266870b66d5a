"""Commands that run and inspect the control plane: up, down, service, token, backup, top."""
