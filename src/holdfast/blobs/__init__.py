"""Blob stores: a directory, S3, and the memory of a test."""
