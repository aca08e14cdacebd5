"""What the service finds on a GPU, in parts anyone with one can repeat."""
