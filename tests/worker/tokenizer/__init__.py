"""Tests of tokenizers, chat templates and the bytes of tokens."""
