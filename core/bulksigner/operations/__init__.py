"""What an operator may do to jobs."""
