"""Sentences for the page, which everybody sees: where a file lies is the machine's own business."""

import re

from engine.words import Words

PATH = re.compile(r"(?<![A-Za-z0-9_:/.~-])/(?:[^\s/，。：；、（）,;:()'\"]+/)+")
"""An absolute path up to its last part; not an address, and not a path below something."""


def file_names(words: Words) -> Words:
    """The same, with each absolute path's last part alone."""
    return Words(PATH.sub("", words.zh), PATH.sub("", words.en))
