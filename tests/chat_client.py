"""The socket client that the bench ships, under the name that tests know it by."""

from bench.chat_client import PLACEHOLDER, ChatClient

__all__ = ["PLACEHOLDER", "ChatClient"]
