-- name: silver_present
-- Whether the specification's queue is here, whether the tables a batch writes can be used, whether we may make tables,
-- and whether all of ours are there.
SELECT to_regclass('task_q') IS NOT NULL,
       coalesce(has_table_privilege(to_regclass('silver_revision'), 'INSERT')
                AND has_table_privilege(to_regclass('silver_reject_day'), 'SELECT')
                AND has_table_privilege(to_regclass('silver_reject_day'), 'INSERT')
                AND has_table_privilege(to_regclass('silver_reject_day'), 'UPDATE'), false),
       coalesce(has_schema_privilege(current_schema(), 'CREATE'), false),
       (SELECT bool_and(to_regclass(name) IS NOT NULL) FROM jsonb_array_elements_text(:ours::jsonb) AS name)
