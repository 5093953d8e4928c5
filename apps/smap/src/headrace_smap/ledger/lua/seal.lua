-- seal
-- Nobody will find more: the total is fixed in one step with the check of the line.
-- ARGV: token of this call; total, or nothing for the one that is shown
local token, given = ARGV[1], tonumber(ARGV[2])
if ARGV[2] ~= '' and not given then return redis.error_reply('ERR total is not a number') end
if not present then return nil end

-- Somebody else wrote DONE during our crawl, of which there is more.
local too_early = status == 'DONE' and crawl_mark == OPEN and (done or 0) < (given or total or 0)
if rank > 0 and (not is_sealed() or too_early) then
  set_total(math.max(given or total or 0, counted))
  if rank < RANKS.PROCESSING_WAIT or too_early then set_status('PROCESSING_WAIT') end
elseif is_sealed() and status ~= 'DONE' and given and given > (total or 0) then
  set_total(given)
end
mark_crawl(SEALED)
cross(token)
renew()
return standing()
