"""Everything simpler than the agent, behind the same interface (`whole_runs.RunPolicy`)."""
