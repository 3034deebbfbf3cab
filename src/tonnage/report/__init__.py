"""What a person reads: tables for the terminal."""
