-- name: servers_read
SELECT id, system_type, host, port, user_name, password_ref FROM ftp_server ORDER BY id

-- name: paths_read
SELECT server_id, path FROM ftp_path ORDER BY server_id, id

-- name: elements_read
SELECT id, name FROM ne

-- name: counters_read
SELECT counter_id, object_level, group_code FROM counter_cat

-- name: levels_read
SELECT code, level_id FROM extra_field_column

-- name: functions_read
SELECT name, rat_type FROM node_function
