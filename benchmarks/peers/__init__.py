"""Drivers of other engines; each runs in a virtual environment of its own."""
