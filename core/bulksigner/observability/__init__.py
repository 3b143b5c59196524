"""What the service says about itself: log lines, the one scrubber, readiness verdicts."""
