"""The schema's history (Alembic); `app.store.engine.Database.upgrade` runs it."""
