"""Fuzzing of every parser of text from outside: `make fuzz`. The corpus is replayed by test_corpus.py."""
