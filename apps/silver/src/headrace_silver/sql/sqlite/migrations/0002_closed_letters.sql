-- creates: silver_closed
-- Letters that a person has dealt with, and what that person wrote about it. The task stays as it is.
CREATE TABLE silver_closed (
  letter_id INTEGER PRIMARY KEY,
  note TEXT NOT NULL,
  closed_by TEXT NOT NULL,
  closed_at TEXT NOT NULL DEFAULT ({now}) CHECK ({is_time(closed_at)})
) STRICT;
