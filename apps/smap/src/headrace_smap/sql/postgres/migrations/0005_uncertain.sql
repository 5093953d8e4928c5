-- Answers that somebody should look at: by module, what rules and model say and by how much the answer leads.
ALTER TABLE post_analytics ADD COLUMN IF NOT EXISTS uncertain jsonb NOT NULL DEFAULT '{}';
