"""What an examination of the machine found, and how it is printed."""

from dataclasses import dataclass

from engine.words import Words

Line = tuple[str, str]
"""A label and a value."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, with its remedy; `stops` says whether the start fails by it."""

    words: Words
    stops: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """Titled lines about what is there, and the problems."""

    sections: dict[str, list[Line]]
    problems: list[Problem]

    @property
    def starts(self) -> bool:
        """Whether nothing stops the start."""
        return not any(problem.stops for problem in self.problems)

    def text(self) -> str:
        """The report as it is printed."""
        parts = []
        for title, lines in self.sections.items():
            parts.append(f"【{title}】")
            parts += [f"  {label}：{value}" for label, value in lines]
        parts.append("【问题】Problems" if self.problems else "【问题】无 / none")
        for problem in self.problems:
            parts.append(f"  {'✗' if problem.stops else '!'} {problem.words.zh}\n    {problem.words.en}")
        ending = "可以启动：make run / ready to start" if self.starts else "目前不能启动 / would not start"
        return "\n".join([*parts, f"\n{'✓' if self.starts else '✗'} {ending}"])
