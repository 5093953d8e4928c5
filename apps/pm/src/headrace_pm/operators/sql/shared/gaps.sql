-- name: elements
SELECT id, name FROM ne ORDER BY name
