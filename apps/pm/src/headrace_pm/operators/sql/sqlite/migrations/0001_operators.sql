-- creates: pm_dictionary_import
-- One row for each table that an import has changed. The digest is that of all rows of the table afterwards.
CREATE TABLE pm_dictionary_import (
    id INTEGER PRIMARY KEY,
    imported_at TEXT NOT NULL,
    table_name TEXT NOT NULL,
    added INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    removed INTEGER NOT NULL,
    digest TEXT NOT NULL,
    source TEXT NOT NULL
);

-- creates: pm_unknown_counter
-- Counters that files have and no dictionary wants; seen is how many values were left out.
CREATE TABLE pm_unknown_counter (
    counter_id INTEGER NOT NULL PRIMARY KEY,
    seen INTEGER NOT NULL,
    first_seen_at TEXT NOT NULL,
    last_seen_at TEXT NOT NULL,
    last_file TEXT NOT NULL
);

-- creates: pm_unknown_counter_file
-- Revisions whose unknown counters are in the sums above: none is counted twice.
CREATE TABLE pm_unknown_counter_file (
    version INTEGER NOT NULL PRIMARY KEY
);

-- creates: pm_kpi
CREATE TABLE pm_kpi (
    name TEXT NOT NULL PRIMARY KEY,
    formula TEXT NOT NULL,
    unit TEXT NOT NULL DEFAULT ''
);
