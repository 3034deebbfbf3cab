"""Launch files of other tools, read and written."""

from tonnage.formats.detect import read_launch
from tonnage.formats.document import Document
from tonnage.formats.export import EXPORTS, Exported, export
from tonnage.formats.kinds import KINDS
from tonnage.formats.launch import Launch

__all__ = ["EXPORTS", "KINDS", "Document", "Exported", "Launch", "export", "read_launch"]
