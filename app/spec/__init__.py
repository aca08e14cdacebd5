"""What a user may ask for, and what it resolves to. Pure."""
