-- name: ne_rename_away
-- Names are exchanged by way of names that nobody has.
UPDATE ne SET name = CONCAT(CHAR(1), id) WHERE id = :id

-- name: import_history
SELECT imported_at, table_name, added, changed, removed, digest, source FROM pm_dictionary_import
 ORDER BY id DESC LIMIT :count_max
