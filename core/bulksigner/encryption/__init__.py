"""Encrypted outputs: the envelope BSENC v1, its key, and the tool that opens it (ENC-01 to ENC-40)."""
