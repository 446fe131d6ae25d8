"""What is computed: the configuration and the forward pass of Llama-class decoders (Llama, Mistral, Qwen2, Qwen3)."""
