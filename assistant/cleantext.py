"""Text that is whole: no replacement characters and no halves of a surrogate pair reach the page.

A server may cut an emoji between two chunks: as U+FFFD where bytes were missing, as lone surrogates
where JSON escaped it in halves.
"""

REPLACEMENT = "\ufffd"


class CleanText:
    """Joins deltas; what is not whole yet is held back until it is, or dropped at the end."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """The part of all text so far, not returned before, that is whole."""
        text = self._held + text.replace(REPLACEMENT, "")
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        if any("\ud800" <= character <= "\udfff" for character in text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
        return text
