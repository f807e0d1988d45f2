"""Hosts: loops that give the kernel time and carry out what it decided. They hold no rules."""
