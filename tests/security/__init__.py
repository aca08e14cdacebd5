"""Tests of app as a whole, by those who mean it harm."""
