"""Results in words and in other tools' formats. Pure."""
