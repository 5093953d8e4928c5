-- name: kpi_one
SELECT name, formula, unit FROM pm_kpi WHERE name = :name

-- name: kpi_list
SELECT name, formula, unit FROM pm_kpi ORDER BY name
