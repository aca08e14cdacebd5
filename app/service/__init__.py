"""What the API and the pages both call."""
