"""Writers, one module a tool: ``RUNTIMES`` and ``write(Resolved) -> Written``."""
