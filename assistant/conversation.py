"""What one chat has said so far."""

from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and the answer shown to it: whole, cut short, or empty where there was none."""

    question_id: str
    question: str
    answer: str = ""


@dataclass(slots=True)
class Conversation:
    """Every question asked in one chat, oldest first."""

    exchanges: list[Exchange] = field(default_factory=list)

    def ask(self, question_id: str, question: str) -> None:
        """Add a question that has no answer yet."""
        self.exchanges.append(Exchange(question_id, question))

    def answer(self, question_id: str, answer: str) -> None:
        """Record what was answered, unless the question is gone by now."""
        for place, exchange in enumerate(self.exchanges):
            if exchange.question_id == question_id:
                self.exchanges[place] = replace(exchange, answer=answer)

    def knows(self, question_id: str) -> bool:
        """Whether this question was asked here and not taken back."""
        return any(exchange.question_id == question_id for exchange in self.exchanges)

    def rewind(self, question_id: str) -> str | None:
        """Forget a question and all that came after it; returns the question, or None if it is not here."""
        for place, exchange in enumerate(self.exchanges):
            if exchange.question_id == question_id:
                del self.exchanges[place:]
                return exchange.question
        return None

    def before(self, question_id: str) -> list[Exchange]:
        """The answered exchanges before a question; unanswered ones would break the alternation of roles."""
        earlier: list[Exchange] = []
        for exchange in self.exchanges:
            if exchange.question_id == question_id:
                break
            if exchange.answer.strip():
                earlier.append(exchange)
        return earlier

    def questions_before(self, question_id: str) -> list[str]:
        """The questions before one, answered or not, oldest first."""
        earlier: list[str] = []
        for exchange in self.exchanges:
            if exchange.question_id == question_id:
                break
            if exchange.question.strip():
                earlier.append(exchange.question)
        return earlier
