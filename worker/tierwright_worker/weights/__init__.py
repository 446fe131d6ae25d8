"""Where parameters come from: Hugging Face folders and GGUF files, to one pytree of host arrays."""
