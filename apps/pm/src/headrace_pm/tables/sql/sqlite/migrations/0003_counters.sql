-- creates: pm_counter_data
-- `obj_hash` are the same 64 bits with a sign: printf('%016x', obj_hash) shows them.
CREATE TABLE pm_counter_data (
    ne_id INTEGER NOT NULL,
    record_time TEXT NOT NULL,
    duration INTEGER NOT NULL,
    counter_id INTEGER NOT NULL,
    counter_value REAL,
    group_code TEXT NOT NULL DEFAULT '',
    rat_type TEXT NOT NULL DEFAULT '',
    cell_index INTEGER,
    obj_hash INTEGER NOT NULL,
    extra_field TEXT,
    version INTEGER NOT NULL,
    PRIMARY KEY (ne_id, record_time, duration, counter_id, rat_type, obj_hash)
) WITHOUT ROWID;
