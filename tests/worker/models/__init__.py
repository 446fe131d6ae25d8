"""Models, weights and tokenizers: what is read, and what is refused."""
