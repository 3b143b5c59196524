"""Certificate source `Pfx`: keys from PKCS#12 files."""
