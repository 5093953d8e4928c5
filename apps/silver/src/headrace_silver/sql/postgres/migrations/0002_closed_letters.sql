-- creates: silver_closed
-- Letters that a person has dealt with, and what that person wrote about it. The task stays as it is.
CREATE TABLE silver_closed (
  letter_id BIGINT PRIMARY KEY,
  note TEXT NOT NULL,
  closed_by TEXT NOT NULL,
  closed_at TIMESTAMPTZ NOT NULL DEFAULT now()
);
