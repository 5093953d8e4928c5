-- creates: ftp_server
-- A password is never here: password_ref is env:NAME or file:PATH.
CREATE TABLE ftp_server (
    id INT AUTO_INCREMENT PRIMARY KEY,
    system_type VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    host VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    port INT NOT NULL DEFAULT 21,
    user_name VARCHAR(100) NOT NULL,
    password_ref VARCHAR(255) NOT NULL DEFAULT ''
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: ftp_path
CREATE TABLE ftp_path (
    id INT AUTO_INCREMENT PRIMARY KEY,
    server_id INT NOT NULL,
    path VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    KEY ftp_path_server (server_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: ne
CREATE TABLE ne (
    id INT AUTO_INCREMENT PRIMARY KEY,
    name VARCHAR(190) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    UNIQUE KEY uk_ne_name (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: counter_cat
CREATE TABLE counter_cat (
    counter_id INT NOT NULL,
    object_level INT NOT NULL,
    group_code VARCHAR(50) NOT NULL,
    PRIMARY KEY (counter_id, object_level)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: extra_field_column
CREATE TABLE extra_field_column (
    code VARCHAR(100) NOT NULL PRIMARY KEY,
    level_id INT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: node_function
CREATE TABLE node_function (
    name VARCHAR(100) NOT NULL PRIMARY KEY,
    rat_type VARCHAR(20) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
