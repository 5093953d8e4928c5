-- creates: pm_purged
-- One row: the highest revision of all files whose rows were deleted. A name that comes again begins above it, so that
-- no two contents of a name ever have the same (file, revision, batch) for those who read the topic.
CREATE TABLE pm_purged (
    id INT NOT NULL PRIMARY KEY,
    revision INT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4
