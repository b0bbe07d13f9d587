"""Hits made by hand."""

from knowledge.base import Hit, Locator, Passage, SourceFile


def made_hit(
    text: str,
    name: str = "考勤管理办法（2025版）.docx",
    headings: tuple[str, ...] = (),
    *,
    bm25: float = 1.0,
    cosine: float | None = 0.85,
    relevance: float = 0.0,
    page: int | None = None,
) -> Hit:
    """A hit with this text, as if it had been found."""
    file = SourceFile(f"/files/{name}", "0" * 64, name, 100, 1, 1, "2025-03-01T00:00:00+00:00")
    return Hit(Passage(text, Locator(page=page, headings=headings)), file, None, bm25, cosine, relevance)
