"""Durable steps on files and the work roots: the only package that moves files."""
