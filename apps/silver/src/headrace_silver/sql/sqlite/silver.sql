-- name: silver_present
-- Whether the specification's queue is here, whether the tables a batch writes can be used, whether we may make tables,
-- and whether all of ours are there.
SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'task_q') AS "queue [bool]",
       true AS "usable [bool]", true AS "may_create [bool]",
       NOT EXISTS (SELECT 1 FROM json_each(:ours) WHERE value NOT IN (SELECT name FROM sqlite_schema))
         AS "whole [bool]"
