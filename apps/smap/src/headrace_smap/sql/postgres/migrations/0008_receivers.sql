-- creates: smap_receivers
-- Who is told of a project, where it says so itself; with the secrets of webhooks.
CREATE TABLE IF NOT EXISTS smap_receivers (
    project_id text PRIMARY KEY,
    receivers  jsonb NOT NULL
);

-- A notice is one per receiver. `receiver` is empty for those of the settings.
ALTER TABLE smap_notice ADD COLUMN receiver text NOT NULL DEFAULT '';
ALTER TABLE smap_notice DROP CONSTRAINT smap_notice_pkey;
ALTER TABLE smap_notice ADD PRIMARY KEY (notice_id);

-- creates: smap_notice_project
CREATE INDEX IF NOT EXISTS smap_notice_project ON smap_notice (project_id);
