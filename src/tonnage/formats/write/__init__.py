"""Writers, one module a tool: ``write(Told) -> str``."""
