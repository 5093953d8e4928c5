-- creates: ftp_server
-- A password is never here: password_ref is env:NAME or file:PATH.
CREATE TABLE ftp_server (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    system_type TEXT NOT NULL,
    host TEXT NOT NULL,
    port INTEGER NOT NULL DEFAULT 21,
    user_name TEXT NOT NULL,
    password_ref TEXT NOT NULL DEFAULT ''
);

-- creates: ftp_path
CREATE TABLE ftp_path (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    server_id INTEGER NOT NULL,
    path TEXT NOT NULL
);
CREATE INDEX ftp_path_server ON ftp_path (server_id);

-- creates: ne
CREATE TABLE ne (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE
);

-- creates: counter_cat
CREATE TABLE counter_cat (
    counter_id INTEGER NOT NULL,
    object_level INTEGER NOT NULL,
    group_code TEXT NOT NULL,
    PRIMARY KEY (counter_id, object_level)
);

-- creates: extra_field_column
CREATE TABLE extra_field_column (
    code TEXT NOT NULL PRIMARY KEY,
    level_id INTEGER NOT NULL
);

-- creates: node_function
CREATE TABLE node_function (
    name TEXT NOT NULL PRIMARY KEY,
    rat_type TEXT NOT NULL
);
