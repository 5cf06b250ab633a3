"""Conversations: message windows within a token budget, and summaries of older messages."""
