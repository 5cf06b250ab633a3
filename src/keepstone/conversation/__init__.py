"""Conversations that outgrow a prompt: what of them stays in view, and how the rest is summed up."""
