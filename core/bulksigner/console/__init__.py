"""What the service shows in a terminal."""
