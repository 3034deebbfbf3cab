"""Writers, one module a tool.

A tool that is told a whole run has ``write(Told) -> str``. One that is told how states are
sharded and leaves the rest to a training script has ``write(Resolved, Cluster) -> Written``,
whose second part is what that script decides.
"""
