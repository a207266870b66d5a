"""Commands that run the control plane and look after it: up, down, service, token, top."""
