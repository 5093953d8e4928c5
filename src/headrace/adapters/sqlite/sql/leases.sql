-- lease_row
-- Who holds a resource.
SELECT holder, fence, epoch, until, boot FROM headrace_lease WHERE name = :name

-- lease_rows
-- Resources that somebody holds or held to the end, a page of them by name.
SELECT name, holder, fence, epoch, until, boot FROM headrace_lease
 WHERE name > :after AND holder <> '' ORDER BY name LIMIT :count

-- lease_first
-- The first grant of a resource.
INSERT INTO headrace_lease (name, holder, fence, epoch, until, boot) VALUES (:name, :holder, :fence, 0, :until, :boot)

-- lease_grant
-- One compare-and-set: nobody took it since it was looked at, and it is released or its hold has passed.
UPDATE headrace_lease SET holder = :holder, fence = max(:fence, fence + 1), epoch = epoch + 1, until = :until,
       boot = :boot
 WHERE name = :name AND epoch = :epoch AND (holder = '' OR until < :now OR boot <> :boot)
RETURNING fence

-- lease_renew
-- Hold on. An expired lease is not revived.
UPDATE headrace_lease SET until = :until
 WHERE name = :name AND fence = :fence AND holder <> '' AND until >= :now AND boot = :boot
RETURNING 1

-- lease_release
-- Clear the holder, never the row.
UPDATE headrace_lease SET holder = '' WHERE name = :name AND fence = :fence
RETURNING 1
