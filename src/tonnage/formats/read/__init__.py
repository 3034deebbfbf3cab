"""Readers, one module a kind of launch file: ``detect(Document)`` and ``read(Document)``."""
