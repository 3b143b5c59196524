"""What a start does about the work a dead life left."""
