"""Publish requests to headrace and await their replies."""
