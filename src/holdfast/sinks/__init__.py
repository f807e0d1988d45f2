"""Observers: what is done with committed events beside the runs themselves."""
