"""A simulated catalogue and simulated videos, by a seed, with the truth about which product is seen where."""
