"""Research behind `flyball predict demand`: measured nets, rivals and the published network."""
