"""Engines: what a client talks to."""
