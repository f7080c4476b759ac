"""Engines, and the process that runs them."""
