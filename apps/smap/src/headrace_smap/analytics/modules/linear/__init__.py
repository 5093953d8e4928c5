"""A linear model of n-grams beside the rules of a module: small, quick, and trained by whoever labels posts."""
