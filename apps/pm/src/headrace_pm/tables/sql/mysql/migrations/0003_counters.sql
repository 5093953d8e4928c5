-- creates: pm_counter_data
-- obj_hash is the first 8 bytes of SHA-256(trimmed location + '|' + cell), the first the highest: HEX shows them in
-- order. extra_field is JSON text, without the check that MariaDB's JSON makes of every row: we write what we read.
CREATE TABLE pm_counter_data (
    ne_id INT NOT NULL,
    record_time DATETIME(3) NOT NULL,
    duration INT NOT NULL,
    counter_id INT NOT NULL,
    counter_value DOUBLE,
    group_code VARCHAR(50) NOT NULL DEFAULT '',
    rat_type VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    cell_index BIGINT,
    obj_hash BIGINT UNSIGNED NOT NULL,
    extra_field LONGTEXT,
    version BIGINT NOT NULL,
    PRIMARY KEY (ne_id, record_time, duration, counter_id, rat_type, obj_hash)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
