"""From trials to a verdict, and everything that limits it. Pure."""
