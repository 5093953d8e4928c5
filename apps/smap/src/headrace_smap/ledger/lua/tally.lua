-- tally
-- The account in one snapshot. Looking at an unfinished project keeps it from expiring.
local left_s = redis.call('TTL', hash)
if not present then
  -- Whoever made a stump of it gave it no end.
  if left_s == -1 then redis.call('EXPIRE', hash, EXPIRE_S) end
  return nil
end
if left_s < 0 or (status ~= 'DONE' and left_s < EXPIRE_S - RENEWED_EVERY_S) then renew() end
return standing()
