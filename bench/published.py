"""The two published write-ups' tables, as data."""

import json
from pathlib import Path
from typing import Any

CARDS = {"a10": "A10", "a100-40g": "A100 40G", "v100-32g": "V100 32G"}


def published() -> dict[str, Any]:
    """The contents of published.json: `article_a` and `article_b`."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))
    return found
