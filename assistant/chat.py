"""One browser's chat: its conversation, its preferences, and its own handles on the answers in progress."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from assistant import texts
from assistant.conversation import Conversation
from assistant.ground import FreeTalk, Ground
from assistant.turn import Ending, Preferences, Screen, Turn
from engine.errors import EngineBusy
from engine.host import EngineHost

SHARE = 2
"""Questions of one chat that may be unanswered at once: one that is answered, and one that waits for it."""


@dataclass(slots=True)
class Chat:
    """Chainlit loses its handle on an answer after an edit and on a closed tab; this one does not."""

    preferences: Preferences
    is_knowledge: bool = False
    """Begun as 知识助手: its answers come from documents, whether it has files of its own or not."""
    ground: Ground = field(default_factory=FreeTalk)
    conversation: Conversation = field(default_factory=Conversation)
    _order: asyncio.Lock = field(default_factory=asyncio.Lock)
    _turns: dict[asyncio.Task[None], Turn] = field(default_factory=dict)
    _intakes: set[asyncio.Task[None]] = field(default_factory=set)
    _known_costs: dict[tuple[str, str, str], int] = field(default_factory=dict)
    _unanswered: int = 0

    @contextmanager
    def share(self) -> Iterator[None]:
        """Room for one question. Raises EngineBusy, at once, while SHARE others are unanswered: a page that floods
        holds no more than those."""
        if self._unanswered >= SHARE:
            raise EngineBusy(texts.SHARE_USED)
        self._unanswered += 1
        try:
            yield
        finally:
            self._unanswered -= 1

    async def ask(self, host: EngineHost, screen: Screen, question_id: str, question: str) -> None:
        """Answer a question after those asked before it; returns when the answer has ended, however it did."""
        self.conversation.ask(question_id, question)
        turn = Turn(
            host=host,
            conversation=self.conversation,
            order=self._order,
            screen=screen,
            current_ground=lambda: self.ground,
            preferences=self.preferences,
            question_id=question_id,
            question=question,
            known_costs=self._known_costs,
        )
        task = asyncio.create_task(turn.run())
        self._turns[task] = turn
        try:
            with suppress(asyncio.CancelledError):  # ended before it began: there is nothing to show
                await task
        finally:
            del self._turns[task]

    async def take_in(self, intake: Callable[[], Awaitable[None]]) -> bool:
        """Run the reading of files; questions asked meanwhile wait for it. Returns whether it came to its end."""
        task = asyncio.create_task(self._in_order(intake))
        self._intakes.add(task)
        try:
            await task
        except asyncio.CancelledError:
            return False
        finally:
            self._intakes.discard(task)
        return True

    async def _in_order(self, intake: Callable[[], Awaitable[None]]) -> None:
        async with self._order:
            await intake()

    async def end_turns(self, ending: Ending) -> None:
        """End every answer in progress or waiting, and every reading of files; returns when they have ended."""
        tasks: list[asyncio.Task[None]] = [*self._turns, *self._intakes]
        for intake in self._intakes:
            intake.cancel()
        for task in self._turns:
            turn = self._turns[task]
            if not turn.closing and turn.ending is None:
                task.cancel()
            if turn.ending != "superseded":
                turn.ending = ending
        if tasks:
            await asyncio.wait(tasks)

    async def rewind(self, question_id: str) -> str | None:
        """Take back a question and all after it; returns its text, or None if this chat never asked it."""
        if not self.conversation.knows(question_id):
            return None
        await self.end_turns("superseded")
        return self.conversation.rewind(question_id)

    async def leave(self, grace_s: float, is_back: Callable[[], bool]) -> None:
        """The browser is gone: let answers go on for `grace_s`, then end them unless it is back."""
        if self._turns or self._intakes:
            await asyncio.sleep(grace_s)
            if not is_back():
                await self.end_turns("left")
