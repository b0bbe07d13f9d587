"""Command lines that refuse in the product's own manner. Standard library only: install.py uses it too."""

import argparse
import re
from typing import NoReturn

from engine.errors import ConfigurationError
from engine.words import Words

MEANINGS = (
    (r"unrecognized arguments: (.+)", "不认识的参数 {}"),
    (r"the following arguments are required: (.+)", "缺少参数 {}"),
    (r"argument (.+?): invalid choice: '?(.*?)'? \(choose from (.+)\)", "参数 {} 不能是 {}，可用的有：{}"),
    (r"argument (.+?): expected .*", "参数 {} 后面缺少值"),
    (r"argument (.+?): not allowed with argument (.+)", "参数 {} 不能与 {} 同用"),
    (r"argument (.+?): ignored explicit argument '(.*)'", "参数 {} 不带值（{}）"),
    (r"argument (.+?): invalid \w+ value: '(.*)'", "参数 {} 的值 {} 不可用"),
    (r"argument (.+?): .*", "参数 {} 有误"),
)
"""What argparse says, and the same in Chinese."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose refusals are ours."""

    def error(self, message: str) -> NoReturn:
        """Raises ConfigurationError."""
        usage = f"{self.prog} --help"
        raise ConfigurationError(Words(f"{_chinese(message)}。用法见 {usage}。", f"{message}. See {usage}."))


def _chinese(message: str) -> str:
    for pattern, meaning in MEANINGS:
        if found := re.fullmatch(pattern, message, re.DOTALL):
            return meaning.format(*(part.replace("'", "").replace(", ", "、") for part in found.groups()))
    return "参数有误"
