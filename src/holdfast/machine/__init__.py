"""Bodies, run deterministically: the loop, the replay check and the primitives."""
