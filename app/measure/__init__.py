"""What a trial yields: records, and the metrics made of them. Pure."""
