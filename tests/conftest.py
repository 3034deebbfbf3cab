"""Settings of every property test: no deadline, and the same examples on every CI run."""

from __future__ import annotations

import os

from hypothesis import settings

# A shared machine is slow at times; what must be fast is measured in benchmarks/.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
