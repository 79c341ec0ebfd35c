"""`python -m _live`: the command in an environment that is there already."""

import sys

from _live.command import main

if __name__ == "__main__":
    sys.exit(main())
