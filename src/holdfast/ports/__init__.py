"""Protocols for what the engine needs from outside. No SQL, no driver types, no rules."""
