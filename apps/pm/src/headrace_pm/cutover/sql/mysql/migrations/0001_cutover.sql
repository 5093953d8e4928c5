-- creates: pm_cutover
-- Who is production, by the last row: 'shadow' while the old system is, 'production' when pm is. Nothing is ever changed
-- or deleted here, so it is also the history.
CREATE TABLE pm_cutover (
    id INT AUTO_INCREMENT PRIMARY KEY,
    mode VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    changed_at DATETIME(6) NOT NULL,
    note TEXT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: pm_shadow_place
-- What was last seen in a folder to which only the old system moves files, and since when it is so.
CREATE TABLE pm_shadow_place (
    system_type VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ftp_server_key VARCHAR(100) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ftp_path VARCHAR(500) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    place VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    files BIGINT NOT NULL,
    digest BINARY(16) NOT NULL,
    changed_at DATETIME(6) NOT NULL,
    looked_at DATETIME(6) NOT NULL,
    PRIMARY KEY (system_type, ftp_server_key, ftp_path, place)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
