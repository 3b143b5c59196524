"""The test kit: throw-away certificates, files, outside verifiers and fixtures for our tests and those of plugins."""
