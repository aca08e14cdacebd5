"""The GPU side: claims experiments and runs them on real engines."""
