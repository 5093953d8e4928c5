"""Applications built on the public names of headrace. Each is a package of its own and may be left out."""
