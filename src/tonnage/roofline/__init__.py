"""A model's operations on the rooflines of devices."""

from tonnage.roofline.points import PHASES, Point, Size, points, undecoded
from tonnage.roofline.roofs import Chart, Roof, chart

__all__ = ["PHASES", "Chart", "Point", "Roof", "Size", "chart", "points", "undecoded"]
