"""`flyball top`: the cluster at a glance, as a terminal application or as plain lines."""
