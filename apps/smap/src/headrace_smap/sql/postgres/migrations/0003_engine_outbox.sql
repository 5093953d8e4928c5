-- Events go by the engine's outbox. What smap's own has not published would be lost with it: then this fails, by the name
-- of the constraint, and the version before publishes it.
CREATE TABLE smap_outbox_left (
  event_id text CONSTRAINT smap_outbox_has_unpublished_events CHECK (event_id IS NULL)
);
INSERT INTO smap_outbox_left SELECT event_id FROM smap_outbox WHERE published_at IS NULL;
DROP TABLE smap_outbox_left;
DROP TABLE smap_outbox;

-- creates: smap_retry
-- Posts that a request has tried again, so that a repeat of it answers the same.
CREATE TABLE IF NOT EXISTS smap_retry (
  project_id text NOT NULL,
  seed text NOT NULL,
  item text NOT NULL,
  asked_at timestamptz NOT NULL,
  PRIMARY KEY (project_id, seed, item)
);

-- creates: smap_retry_asked
CREATE INDEX IF NOT EXISTS smap_retry_asked ON smap_retry (asked_at);
