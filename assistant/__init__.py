"""One turn of conversation: history, budget, the screen, the settings panel."""
