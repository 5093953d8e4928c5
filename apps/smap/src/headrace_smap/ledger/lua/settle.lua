-- settle
-- Items ended: each counts once, `done` only ever grows by what is new, and whoever brings it to the line crosses it.
-- ARGV: token of this call; digests of items that went well; of items that failed (16 bytes each, end to end)
local token = ARGV[1]
if #ARGV[2] % DIGEST_BYTES + #ARGV[3] % DIGEST_BYTES > 0 then
  return redis.error_reply('ERR digests have 16 bytes')
end
if not present then return nil end

local well, badly = digests(ARGV[2]), digests(ARGV[3])
local more_errors = count(well, badly)
if done and new > 0 then
  done = redis.call('HINCRBY', hash, 'done', new)
end
-- Somebody may have put `errors` back to 0 in between; fewer than none cannot have failed.
more_errors = math.max(more_errors, -(errors or 0))
if errors and more_errors ~= 0 then
  errors = redis.call('HINCRBY', hash, 'errors', more_errors)
end
if status == 'PROCESSING_WAIT' and is_sealed() and #well + #badly > 0 then set_status('PROCESSING') end
cross(token)
renew()
return standing()
