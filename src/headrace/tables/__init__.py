"""Tables that an application keeps in PostgreSQL or SQLite: named statements, and the values that pass through them."""
