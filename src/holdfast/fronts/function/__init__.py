"""Durable functions: steps, and workflows written as one async function."""
