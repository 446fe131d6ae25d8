"""Makes ``python -m tierwright`` the command line."""

import sys

from tierwright.cli import main

sys.exit(main())
