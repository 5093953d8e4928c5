-- name: ne_rename_away
-- Names are exchanged by way of names that nobody has.
UPDATE ne SET name = char(1) || id WHERE id = :id

-- name: import_history
SELECT imported_at AS "at [time]", table_name, added, changed, removed, digest, source FROM pm_dictionary_import
 ORDER BY id DESC LIMIT :count_max
