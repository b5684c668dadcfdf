"""Conversations: input formats, chat templates, and the learned part of a rendered text."""
