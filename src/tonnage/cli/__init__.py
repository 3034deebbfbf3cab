"""The command line: a file a verb, and no arithmetic."""

from tonnage.cli.app import main

__all__ = ["main"]
