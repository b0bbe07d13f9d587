"""`python -m bench`."""

import sys

from bench.cli import main

if __name__ == "__main__":  # the load generators' processes import this module too
    sys.exit(main())
