"""Pictures of runs: reads run directories only, computes nothing again, knows no algorithm."""
