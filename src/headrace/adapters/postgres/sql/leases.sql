-- lease_acquire
-- Take what nobody holds.
SELECT * FROM headrace.acquire(%b, %b, %b::double precision)

-- lease_takeover
-- Take what its holder has lost.
SELECT * FROM headrace.takeover(%b, %b, %b::bigint, %b::double precision)

-- lease_renew
-- Hold on. An expired lease is not revived.
UPDATE headrace.lease SET until = clock_timestamp() + headrace.seconds(%(hold_s)b::double precision)
 WHERE name = %(name)b AND fence = %(fence)b::bigint AND holder <> '' AND until >= clock_timestamp()
RETURNING 1

-- lease_release
-- Clear the holder, never the row.
UPDATE headrace.lease SET holder = '' WHERE name = %b AND fence = %b::bigint RETURNING 1

-- lease_look
-- Who holds a resource.
SELECT l.holder, l.fence, l.epoch, headrace.lease_left(l) FROM headrace.lease l WHERE l.name = %b

-- lease_page
-- Resources that somebody holds or held to the end, a page of them by name.
SELECT l.name, l.holder, l.fence, l.epoch, headrace.lease_left(l) FROM headrace.lease l
 WHERE l.name > %b AND l.holder <> '' ORDER BY l.name LIMIT %b::integer
