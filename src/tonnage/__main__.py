"""``python -m tonnage``: the same as the command."""

import sys

from tonnage.cli.app import main

sys.exit(main())
