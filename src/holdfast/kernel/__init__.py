"""Rules without I/O: each command becomes one guarded write, each outcome a reply or an error."""
