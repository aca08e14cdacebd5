"""The schema's history (Alembic); `app.store.database.Database.upgrade` runs it."""
