-- name: ftp_server_rows
SELECT id, system_type, host, port, user_name, password_ref FROM ftp_server

-- name: ftp_server_add
INSERT INTO ftp_server (id, system_type, host, port, user_name, password_ref)
VALUES (:id, :system_type, :host, :port, :user_name, :password_ref)

-- name: ftp_server_change
UPDATE ftp_server
   SET system_type = :system_type, host = :host, port = :port, user_name = :user_name, password_ref = :password_ref
 WHERE id = :id

-- name: ftp_server_remove
DELETE FROM ftp_server WHERE id = :id

-- name: ftp_path_rows
SELECT id, server_id, path FROM ftp_path

-- name: ftp_path_add
INSERT INTO ftp_path (id, server_id, path) VALUES (:id, :server_id, :path)

-- name: ftp_path_change
UPDATE ftp_path SET server_id = :server_id, path = :path WHERE id = :id

-- name: ftp_path_remove
DELETE FROM ftp_path WHERE id = :id

-- name: ne_rows
SELECT id, name FROM ne

-- name: ne_add
INSERT INTO ne (id, name) VALUES (:id, :name)

-- name: ne_change
UPDATE ne SET name = :name WHERE id = :id

-- name: ne_remove
DELETE FROM ne WHERE id = :id

-- name: counter_cat_rows
SELECT counter_id, object_level, group_code FROM counter_cat

-- name: counter_cat_add
INSERT INTO counter_cat (counter_id, object_level, group_code) VALUES (:counter_id, :object_level, :group_code)

-- name: counter_cat_change
UPDATE counter_cat
   SET group_code = :group_code
 WHERE counter_id = :counter_id AND object_level = :object_level

-- name: counter_cat_remove
DELETE FROM counter_cat WHERE counter_id = :counter_id AND object_level = :object_level

-- name: extra_field_column_rows
SELECT code, level_id FROM extra_field_column

-- name: extra_field_column_add
INSERT INTO extra_field_column (code, level_id) VALUES (:code, :level_id)

-- name: extra_field_column_change
UPDATE extra_field_column SET level_id = :level_id WHERE code = :code

-- name: extra_field_column_remove
DELETE FROM extra_field_column WHERE code = :code

-- name: node_function_rows
SELECT name, rat_type FROM node_function

-- name: node_function_add
INSERT INTO node_function (name, rat_type) VALUES (:name, :rat_type)

-- name: node_function_change
UPDATE node_function SET rat_type = :rat_type WHERE name = :name

-- name: node_function_remove
DELETE FROM node_function WHERE name = :name

-- name: pm_kpi_rows
SELECT name, formula, unit FROM pm_kpi

-- name: pm_kpi_add
INSERT INTO pm_kpi (name, formula, unit) VALUES (:name, :formula, :unit)

-- name: pm_kpi_change
UPDATE pm_kpi SET formula = :formula, unit = :unit WHERE name = :name

-- name: pm_kpi_remove
DELETE FROM pm_kpi WHERE name = :name

-- name: import_record
INSERT INTO pm_dictionary_import (imported_at, table_name, added, changed, removed, digest, source)
VALUES (:imported_at, :table_name, :added, :changed, :removed, :digest, :source)

-- name: newest_import
SELECT COALESCE(MAX(id), 0) FROM pm_dictionary_import
