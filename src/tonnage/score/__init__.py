"""Predicted beside measured: rows of real runs, and the scoreboard over them."""

from tonnage.score.row import INPUT_COLUMNS, Row, read_rows
from tonnage.score.scoreboard import Board, Scoreboard, Scored, score, scoreboard

__all__ = [
    "INPUT_COLUMNS",
    "Board",
    "Row",
    "Scoreboard",
    "Scored",
    "read_rows",
    "score",
    "scoreboard",
]
