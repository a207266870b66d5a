"""What acts on nodes: one file or folder per engine, all fulfilling `core.protocols.Engine`."""
