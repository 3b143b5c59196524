"""The REST handlers, one module a subject; each gets services, request and response."""
