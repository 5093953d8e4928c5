-- expect
-- Our crawl goes on and has found so many; it is itself an open item until the seal, so the total is one ahead. Somebody
-- else may have written a later status meanwhile: it is our crawl, so it is put back.
-- ARGV: found
local found = tonumber(ARGV[1])
if not found then return redis.error_reply('ERR found is not a number') end
if not present then return nil end

if rank > 0 and (crawl_mark == OPEN or (crawl_mark == '' and status ~= 'DONE')) then
  mark_crawl(OPEN)
  if found + 1 > (total or 0) then set_total(found + 1) end
  if status ~= 'CRAWLING' then set_status('CRAWLING') end
elseif is_sealed() and status ~= 'DONE' and found > (total or 0) then
  set_total(found)
end
renew()
return standing()
