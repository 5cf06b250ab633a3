"""What is learned from what people say: by rules, and by a model where there is one."""
