"""What stands in a performance file, and how it is read: Cap'n Proto frames, pointers and columns."""
