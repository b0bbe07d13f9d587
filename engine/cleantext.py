"""Text that is whole: no replacement characters and no halves of a surrogate pair leave an engine."""

import codecs


class CleanText:
    """Joins the pieces of one answer. A server may cut an emoji between two: as U+FFFD where bytes were missing, as
    lone surrogates where JSON escaped it in halves. What is not whole yet is held back until it is, or dropped."""

    def __init__(self) -> None:
        self._pairs = codecs.getincrementaldecoder("utf-16-le")("ignore")

    def feed(self, text: str) -> str:
        """The part of all text so far, not returned before, that is whole."""
        return self._pairs.decode(text.encode("utf-16-le", "surrogatepass")).replace("\ufffd", "")
