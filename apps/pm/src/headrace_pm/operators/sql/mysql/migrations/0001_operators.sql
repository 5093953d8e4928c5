-- creates: pm_dictionary_import
-- One row for each table that an import has changed. The digest is that of all rows of the table afterwards.
CREATE TABLE pm_dictionary_import (
    id BIGINT AUTO_INCREMENT PRIMARY KEY,
    imported_at DATETIME(6) NOT NULL,
    table_name VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    added INT NOT NULL,
    changed INT NOT NULL,
    removed INT NOT NULL,
    digest CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    source VARCHAR(500) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: pm_unknown_counter
-- Counters that files have and no dictionary wants; seen is how many values were left out.
CREATE TABLE pm_unknown_counter (
    counter_id INT NOT NULL PRIMARY KEY,
    seen BIGINT NOT NULL,
    first_seen_at DATETIME(6) NOT NULL,
    last_seen_at DATETIME(6) NOT NULL,
    last_file VARCHAR(255) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: pm_unknown_counter_file
-- Revisions whose unknown counters are in the sums above: none is counted twice.
CREATE TABLE pm_unknown_counter_file (
    version BIGINT NOT NULL PRIMARY KEY
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4

-- creates: pm_kpi
CREATE TABLE pm_kpi (
    name VARCHAR(100) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    formula VARCHAR(2000) NOT NULL,
    unit VARCHAR(30) NOT NULL DEFAULT ''
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
