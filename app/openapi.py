"""python -m app.openapi: writes docs/openapi.json."""

import json
from pathlib import Path

from app.main import create_app
from app.settings import Settings

TARGET = Path(__file__).parents[1] / "docs" / "openapi.json"


def description() -> str:
    """What the application says of itself; no database is asked."""
    document = create_app(Settings(database_url="postgresql+psycopg://")).openapi()
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(description())
