"""What stands between encoded values and a store: keys, and what they encrypt."""
