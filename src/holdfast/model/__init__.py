"""Frozen data: the words of the engine, without behaviour and without I/O."""
