-- open
-- A new project; one that is there stays as it is. What was counted under its name before still is.
-- Replies: 1, or 0 if it is there.
if present then return 0 end
local all_done, all_errors = counted + (done or 0), failures + (errors or 0)
redis.call('HSET', hash, 'status', 'INITIALIZING', 'total', total or 0, 'done', all_done, 'errors', all_errors)
status = 'INITIALIZING'
renew()
return 1
