"""Contextual bandits that nobody can read a person's feedback from."""
