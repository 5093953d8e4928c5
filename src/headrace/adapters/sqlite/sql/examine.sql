-- examine_expired
-- Claims that ran out and were not swept: how many, and since when at least. Those of an earlier boot
-- have no known age.
SELECT count(*), coalesce(max(CASE WHEN boot = :boot THEN :now - until ELSE :unknown END), 0)
  FROM headrace_claim WHERE live = 1 AND (boot <> :boot OR until < :now)
