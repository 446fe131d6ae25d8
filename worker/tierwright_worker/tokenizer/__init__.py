"""Text to token ids and back: tokenizers of both file formats, incremental decoding, sandboxed chat templates."""
