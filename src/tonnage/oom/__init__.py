"""What an out-of-memory message says, alone and beside an estimate of the run that raised it."""
