"""Opens a model: from a path to its configuration, parameters and tokenizer; GGUF files are converted once and kept."""
