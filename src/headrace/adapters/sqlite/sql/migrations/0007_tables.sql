-- Which migrations of an application's own tables were applied, by the package that brought them.
CREATE TABLE headrace_table_migration (
    owner TEXT NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    applied_at REAL NOT NULL,
    PRIMARY KEY (owner, number)
) STRICT, WITHOUT ROWID;
