-- creates: smap_shown
-- The most that anybody was shown of a project that is under way: its bar does not run backwards.
CREATE TABLE IF NOT EXISTS smap_shown (
    project_id TEXT PRIMARY KEY,
    percent    REAL NOT NULL,
    processed  INTEGER NOT NULL
);
