"""Measurements of the method and of the service itself."""
