-- Which migrations of an application's own tables were applied, by the package that brought them.
CREATE TABLE headrace.table_migration (
    owner text NOT NULL,
    number integer NOT NULL,
    name text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (owner, number)
);
