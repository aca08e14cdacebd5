"""What all calls with one directory found: `digest.json` for machines, `tables.md` for the documentation."""

import json
from pathlib import Path
from typing import Any

from benchmarks.gpu.tables import tables

Object = dict[str, Any]


class Ledger:
    """Written anew with every part, so that nothing found is lost."""

    def __init__(self, out: Path) -> None:
        self._out = out
        file = out / "digest.json"
        document = json.loads(file.read_text()) if file.exists() else {}
        self.parts: dict[str, Object] = document.get("parts", {})
        self.not_run: dict[str, str] = document.get("not_run", {})

    @property
    def graphs(self) -> set[str]:
        """What this host's vLLM has compiled."""
        return {graph for part in self.parts.values() for graph in part["graphs"]}

    def keep(self, name: str, found: Object) -> None:
        """A part that ran."""
        self.parts[name] = found
        self.not_run.pop(name, None)
        self._write()

    def leave_out(self, name: str, reason: str) -> None:
        """A part that was asked for and did not run; what an earlier call found of it stays."""
        self.not_run[name] = reason
        self._write()

    def _write(self) -> None:
        document = {"parts": self.parts, "not_run": self.not_run}
        (self._out / "digest.json").write_text(json.dumps(document, indent=1, ensure_ascii=False))
        (self._out / "tables.md").write_text(tables(self.parts, self.not_run))
