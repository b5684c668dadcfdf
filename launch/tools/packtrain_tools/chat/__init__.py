"""Conversations: the forms people have, chat templates, and what of a rendered text is learned."""
