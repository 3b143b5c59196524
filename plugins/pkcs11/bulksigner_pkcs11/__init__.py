"""Certificate source for bulksigner: keys behind PKCS#11."""
