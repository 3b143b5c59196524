"""Jobs: the state machine, the durable queue and the lists made of it."""
