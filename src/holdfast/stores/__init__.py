"""Stores: they keep runs and know no rules."""
