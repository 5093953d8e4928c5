-- creates: smap_receivers
-- Who is told of a project, where it says so itself; with the secrets of webhooks.
CREATE TABLE IF NOT EXISTS smap_receivers (
    project_id TEXT PRIMARY KEY,
    receivers  TEXT NOT NULL
);

-- A notice is one per receiver. `receiver` is empty for those of the settings. A table cannot change its key here, so it
-- is made anew.
CREATE TABLE smap_notice_anew (
    notice_id  TEXT PRIMARY KEY,
    project_id TEXT NOT NULL,
    channel    TEXT NOT NULL,
    receiver   TEXT NOT NULL DEFAULT '',
    counts     TEXT,
    state      TEXT NOT NULL DEFAULT 'waiting',
    attempts   INTEGER NOT NULL DEFAULT 0,
    due_at     TEXT NOT NULL,
    error      TEXT,
    created_at TEXT NOT NULL,
    sent_at    TEXT
);
INSERT INTO smap_notice_anew (notice_id, project_id, channel, counts, state, attempts, due_at, error, created_at, sent_at)
SELECT notice_id, project_id, channel, counts, state, attempts, due_at, error, created_at, sent_at FROM smap_notice;
DROP TABLE smap_notice;
ALTER TABLE smap_notice_anew RENAME TO smap_notice;

-- creates: smap_notice_due
CREATE INDEX IF NOT EXISTS smap_notice_due ON smap_notice (due_at) WHERE state = 'waiting';

-- creates: smap_notice_project
CREATE INDEX IF NOT EXISTS smap_notice_project ON smap_notice (project_id);
