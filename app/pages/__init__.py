"""HTML for people: every page shows what the API answers, and links to it."""
