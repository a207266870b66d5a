"""The REST interface: a thin, guarded HTTP skin over the control plane."""
