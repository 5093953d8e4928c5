-- creates: pm_purged
CREATE TABLE pm_purged (
    id INTEGER NOT NULL PRIMARY KEY,
    revision INTEGER NOT NULL
);
