"""What every route passes and needs, JSON and pages alike."""
