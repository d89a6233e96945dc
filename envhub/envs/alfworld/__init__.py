"""The ALFWorld environment: household tasks in text, played by a native engine that answers as TextWorld does."""
