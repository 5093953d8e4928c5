INSERT INTO {table}
SELECT 1 + seq DIV 20000,
       '2026-01-01' + INTERVAL (seq MOD 20000) DIV 200 * 15 MINUTE,
       900,
       1000 + seq MOD 200,
       IF(seq MOD 50 = 0, NULL, SQRT(seq) * 100),
       CONCAT('G', seq MOD 7),
       '5G',
       seq MOD 3,
       (CRC32(seq) << 32) + CRC32(seq + 1),
       CONCAT('{{"cell name":"C', seq MOD 200, '","gnodebfunction name":"HN01","cell_index":"1"}}'),
       {version}
  FROM seq_{first}_to_{last}
