-- Files of a day as other programs and ours leave them: 24 an hour, every 24th an error, the last hours still on their way.
INSERT INTO file_processing_state (system_type, ftp_server_key, ftp_path, file_name, file_size, state, mysql_processed,
    clickhouse_processed, mysql_insert_time, clickhouse_insert_time, error_message, created_at, updated_at)
SELECT '5GA', 'h_21_u', '/Access/', CONCAT('f', LPAD(seq, 4, '0'), '.dat'), 1000,
       CASE WHEN seq % 24 = 7 THEN 'ERROR' WHEN seq >= 560 THEN 'PENDING' WHEN seq >= 540 THEN 'PARTIAL_DONE'
            WHEN seq >= 500 THEN 'COMPLETED' ELSE 'MOVED' END,
       seq % 24 <> 7 AND seq < 560, seq % 24 <> 7 AND seq < 540,
       IF(seq % 24 <> 7 AND seq < 560, seen + INTERVAL 5 + seq % 10 SECOND, NULL),
       IF(seq % 24 <> 7 AND seq < 540, seen + INTERVAL 10 + seq % 20 SECOND, NULL),
       IF(seq % 24 = 7, IF(seq % 48 = 7, CONCAT('Unknown NE: gnb-', seq), '<b>pointer</b> at word 4711 lies'), NULL),
       seen, seen
  FROM (SELECT seq, CAST('2026-01-01' AS DATETIME) + INTERVAL seq * 150 SECOND AS seen FROM seq_0_to_575) AS numbers
