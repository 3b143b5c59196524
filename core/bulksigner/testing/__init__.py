"""The test kit: what the product and its plugins are tested with."""
