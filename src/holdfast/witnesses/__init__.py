"""Databases of users', each with a table in which steps leave that they took effect there."""
