"""What the core and its plugins promise each other; imports nothing else of the product."""
