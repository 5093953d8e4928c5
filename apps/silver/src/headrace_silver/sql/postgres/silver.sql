-- name: silver_present
-- Whether the specification's queue is here, whether our own tables are and may be used, and whether we may make them.
SELECT to_regclass('task_q') IS NOT NULL,
       coalesce(has_table_privilege(to_regclass('silver_revision'), 'INSERT')
                AND has_table_privilege(to_regclass('silver_reject_day'), 'SELECT')
                AND has_table_privilege(to_regclass('silver_reject_day'), 'INSERT')
                AND has_table_privilege(to_regclass('silver_reject_day'), 'UPDATE'), false),
       coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
