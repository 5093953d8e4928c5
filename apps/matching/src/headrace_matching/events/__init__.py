"""The fourteen events of matching: their names, what they close, their schemas, and how they are read and written."""
