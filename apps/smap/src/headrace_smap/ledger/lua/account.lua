-- account
-- What every other script begins with: the account of one project, read and judged before anything is written. Scripts
-- are isolated but not rolled back, so whatever could fail is looked at here.
-- KEYS: the project's hash; the set of items that went well; the set of those that failed; the mark of our finish; the
-- mark of our crawl. An item is in one of the two sets, so it costs the same whichever way it ended.
-- Replies of all scripts but `open`: status, total, done, errors, items that ended, items that failed, mark of the
-- finish, mark of the crawl, 1 if no field was missing, new items, surplus items; or nil if there is no project.
local hash, items, failed, finish, crawl = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local EXPIRE_S = 604800
local RENEWED_EVERY_S = 3600
local DIGEST_BYTES = 16
local RANKS = {INITIALIZING = 1, CRAWLING = 2, PROCESSING_WAIT = 3, PROCESSING = 4, DONE = 5}
local KINDS = {[hash] = 'hash', [items] = 'set', [failed] = 'set', [finish] = 'string', [crawl] = 'string'}
local OPEN, SEALED = 'open', 'sealed'

local kinds = {}
for key, kind in pairs(KINDS) do
  local found = redis.call('TYPE', key).ok
  kinds[key] = found
  if found ~= kind and found ~= 'none' then
    return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. kind)
  end
end

local fields = redis.call('HMGET', hash, 'status', 'total', 'done', 'errors')
-- A hash without a status is a stump: somebody counted after the hash was lost. It is no project until it is restored,
-- and all that it counts is somebody else's.
local present = not not fields[1]
local whole_hash = fields[1] and fields[2] and fields[3] and fields[4]
-- What we know of our own crawl, whatever status somebody else writes meanwhile.
local crawl_mark = kinds[crawl] == 'string' and redis.call('GET', crawl) or ''
local failures = redis.call('SCARD', failed)
local counted = redis.call('SCARD', items) + failures

-- A hash may be somebody else's: what is missing is 0, and nil is what cannot be meant, or what HINCRBY would refuse.
local function whole(text)
  if not text then return 0 end
  if #text <= 15 and string.find(text, '^%d+$') then return tonumber(text) end
  return nil
end

local function addable(text)
  if text and text ~= '0' and not string.find(text, '^[1-9]') then return nil end
  return whole(text)
end

local status = fields[1] or 'INITIALIZING'
-- 0 is a word of somebody else, which stays as it is.
local rank = RANKS[status] or 0
local total, done, errors = whole(fields[2]), addable(fields[3]), addable(fields[4])
local new, surplus = 0, 0

local function is_sealed() return rank >= RANKS.PROCESSING_WAIT and crawl_mark ~= OPEN end

local function set_status(word)
  status, rank = word, RANKS[word]
  redis.call('HSET', hash, 'status', word)
end

local function set_total(count)
  total = count
  redis.call('HSET', hash, 'total', string.format('%d', count))
end

local function mark_crawl(word)
  if crawl_mark ~= word then redis.call('SET', crawl, word) end
  crawl_mark = word
end

local function digests(packed)
  local list = {}
  for first = 1, #packed, DIGEST_BYTES do
    list[#list + 1] = string.sub(packed, first, first + DIGEST_BYTES - 1)
  end
  return list
end

-- Those of a list that are counted already or that a sealed total has room for, each new one once.
local function fitting(list, room, taken)
  local kept = {}
  if #list == 0 then return kept, room end
  local in_items = redis.call('SMISMEMBER', items, unpack(list))
  local in_failed = redis.call('SMISMEMBER', failed, unpack(list))
  for position, digest in ipairs(list) do
    if in_items[position] + in_failed[position] > 0 then
      kept[#kept + 1] = digest
    elseif taken[digest] == nil then
      taken[digest] = true
      if room > 0 then
        kept[#kept + 1] = digest
        room = room - 1
      else
        surplus = surplus + 1
      end
    end
  end
  return kept, room
end

-- Count what ended; items that went well first, because that outweighs a failure of the same item.
local function count(well, badly)
  if is_sealed() then
    local room = math.max(0, (total or 0) - counted)
    if #well + #badly > room then
      local taken = {}
      well, room = fitting(well, room, taken)
      badly = fitting(badly, room, taken)
    end
  end
  local lifted, fresh_failures = 0, 0
  if #well > 0 then
    -- The first write is one that a server without memory refuses; behind another it would not be asked any more.
    new = redis.call('SADD', items, unpack(well))
    if failures > 0 then lifted = redis.call('SREM', failed, unpack(well)) end
  end
  for _, digest in ipairs(badly) do
    if redis.call('SISMEMBER', items, digest) == 0 then
      fresh_failures = fresh_failures + redis.call('SADD', failed, digest)
    end
  end
  new = new - lifted + fresh_failures
  counted = counted + new
  failures = failures + fresh_failures - lifted
  return fresh_failures - lifted
end

-- The finish line. The mark is set once for ever: it tells whose call crossed, also when that call is sent again.
local function cross(token)
  if is_sealed() and status ~= 'DONE' and total and (done or 0) >= total then
    set_status('DONE')
    redis.call('SET', finish, token, 'NX')
    for key in pairs(KINDS) do redis.call('EXPIRE', key, EXPIRE_S) end
  end
end

-- Kept for seven days from the last change, and from DONE on for seven days only.
local function renew()
  if status ~= 'DONE' then
    for key in pairs(KINDS) do redis.call('EXPIRE', key, EXPIRE_S) end
    return
  end
  if redis.call('TTL', hash) < 0 then redis.call('EXPIRE', hash, EXPIRE_S) end
  local left_ms = redis.call('PTTL', hash)
  for key in pairs(KINDS) do
    if redis.call('PTTL', key) == -1 then redis.call('PEXPIRE', key, left_ms) end
  end
end

local function standing()
  local mark = redis.call('GET', finish) or ''
  local whole_mark = whole_hash and 1 or 0
  return {status, total or 0, done or 0, errors or 0, counted, failures, mark, crawl_mark, whole_mark, new, surplus}
end
