"""Tonnage weighs a training run before it is launched."""
