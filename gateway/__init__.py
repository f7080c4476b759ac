"""Synchronous HTTP over the queue."""
