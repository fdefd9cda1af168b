"""Networks that learn from running text first: ELMo, GPT, BERT and their family."""
