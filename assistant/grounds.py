"""Which Ground a chat stands on."""

from assistant import boot
from assistant.chat import Chat
from assistant.documents import Documents
from assistant.ground import FreeTalk
from knowledge.grounding import SYSTEM_PROMPT


def documents(session_id: str, language: str, own_system: bool) -> Documents:
    """The shared library and the chat's own files; `own_system`: the settings' system prompt is one for documents."""
    system = "" if own_system else SYSTEM_PROMPT.speak(language)
    return Documents(boot.library, session_id, system, language)


async def settle(chat: Chat, session_id: str, language: str) -> bool:
    """A chat that has files of its own answers from documents, as 知识助手 always does; returns whether it has just
    turned to them."""
    was_grounded = isinstance(chat.ground, Documents)
    if not chat.is_knowledge:
        library = await boot.library()
        has_files = bool(await library.files(session_id))
        if not has_files:
            chat.ground = FreeTalk()
        elif not was_grounded:
            chat.ground = documents(session_id, language, own_system=False)
    return isinstance(chat.ground, Documents) and not was_grounded
