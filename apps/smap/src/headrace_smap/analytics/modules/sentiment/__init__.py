"""How a post is meant: the module, and the rules, word lists or model that it asks."""
