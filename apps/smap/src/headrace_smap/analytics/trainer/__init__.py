"""Labels of people become a model: reading them, training, and saying how good it is."""
