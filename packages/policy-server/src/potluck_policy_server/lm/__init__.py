"""Causal language models: prompts, labels, the packed forward, LoRA, and exact menu scores."""
