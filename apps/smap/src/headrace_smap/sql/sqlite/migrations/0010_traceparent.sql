-- The trace of the request that made a project: all events of it belong to it.
ALTER TABLE smap_project ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';
