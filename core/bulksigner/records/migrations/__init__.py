"""One module for each step of the schema, `0001_…` upwards: frozen once released, and importing no model."""
