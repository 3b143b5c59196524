"""`python -m bulksigner` does what the command `bulksigner` does."""

import sys

from bulksigner.cli import main

if __name__ == "__main__":
    sys.exit(main())
