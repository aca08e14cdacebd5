"""What benchmarks and tests share: services, databases, crowds, and crashes."""
