"""A sentence for people, in the two languages of the product."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """One sentence in Simplified Chinese and the same in English."""

    zh: str
    en: str

    def speak(self, language: str) -> str:
        """The sentence for a browser's language tag: Chinese for every zh-*, else English."""
        return self.zh if language.lower().startswith("zh") else self.en

    def __str__(self) -> str:
        return self.zh
