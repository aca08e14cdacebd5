"""rollout-lab …"""

from app.cli.entry import main

__all__ = ["main"]
