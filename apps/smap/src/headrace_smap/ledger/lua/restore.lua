-- restore
-- Make the account at least what the truth knows. It only adds, so that it may run beside any settlement.
-- ARGV: status; total; foreign part of done; foreign part of errors; 1 if the finish was ours; mark of our crawl; 1 if
-- items of ours were removed; seconds that what is DONE has left, if known; digests of items that went well; of items
-- that failed
local word, known_total = ARGV[1], tonumber(ARGV[2])
local foreign_done, foreign_errors, ours = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5] == '1'
local known_crawl, items_lost, left_s = ARGV[6], ARGV[7] == '1', tonumber(ARGV[8]) or 0
local is_mark = known_crawl == '' or known_crawl == OPEN or known_crawl == SEALED
if not (RANKS[word] and known_total and foreign_done and foreign_errors and is_mark) then
  return redis.error_reply('ERR what is known has a status, numbers and a mark')
end
if #ARGV[9] % DIGEST_BYTES + #ARGV[10] % DIGEST_BYTES > 0 then
  return redis.error_reply('ERR digests have 16 bytes')
end

if not present then rank = 0 end
local was_sealed = is_sealed()
if known_crawl == SEALED or (known_crawl == OPEN and crawl_mark == '') then mark_crawl(known_crawl) end
-- Nothing is sealed while our crawl goes on, whatever was seen in between.
if crawl_mark == OPEN and RANKS[word] > RANKS.CRAWLING then word = 'CRAWLING' end
local known_sealed = RANKS[word] >= RANKS.PROCESSING_WAIT
if word == 'DONE' or (known_sealed and not was_sealed) then
  -- With the seal the crawl is no open item any more, so this may be one less than is shown.
  set_total(known_total)
elseif not fields[2] or (known_sealed == is_sealed() and known_total > (total or 0)) then
  set_total(math.max(known_total, total or 0))
end
if RANKS[word] > rank then set_status(word) end
if ours then redis.call('SET', finish, 'restored', 'NX') end

-- What others counted is what is shown beyond our own items, or what was last seen of it; a stump began after that.
if not present then
  foreign_done = foreign_done + (done or 0)
  foreign_errors = foreign_errors + (errors or 0)
elseif not items_lost then
  foreign_done = math.max(foreign_done, (done or 0) - counted)
  foreign_errors = math.max(foreign_errors, (errors or 0) - failures)
end
local shown_done, shown_errors = done or 0, errors or 0
count(digests(ARGV[9]), digests(ARGV[10]))
done, errors = counted + foreign_done, failures + foreign_errors
if items_lost then
  -- Ours are in what is shown until they are counted again: it is not lowered.
  done, errors = math.max(done, shown_done), math.max(errors, shown_errors)
end
redis.call('HSET', hash, 'done', string.format('%d', done), 'errors', string.format('%d', errors))
-- Somebody wrote DONE though our seal says that there is more.
if status == 'DONE' and word ~= 'DONE' and known_crawl == SEALED and done < known_total then
  set_status(word)
end
-- Seven days from the end, not from now.
if status == 'DONE' and left_s > 0 and redis.call('TTL', hash) < 0 then redis.call('EXPIRE', hash, left_s) end
whole_hash = true
renew()
return standing()
