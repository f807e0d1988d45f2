"""What Holdfast is tested with, shipped for those who test theirs."""
