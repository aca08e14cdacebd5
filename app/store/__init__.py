"""Every SQL statement of the project, for SQLite and Postgres alike."""
