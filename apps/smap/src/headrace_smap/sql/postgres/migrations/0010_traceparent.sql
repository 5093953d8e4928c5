-- The trace of the request that made a project: all events of it belong to it.
ALTER TABLE smap_project ADD COLUMN IF NOT EXISTS traceparent text NOT NULL DEFAULT '';
