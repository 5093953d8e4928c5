-- What of these versions (each is one revision of one file) is in ClickHouse: rows and their digest, as they are read.
-- Rows that a newer version has replaced are no longer there: ask for the newest revision of a file. The sum is that of
-- counters/row_digest.py, column by column. A lower bound of record_time spares the months before it.
SELECT
    version,
    count() AS rows,
    sum(intHash64(bitXor(
        intHash64(bitXor(
            intHash64(bitXor(
                intHash64(bitXor(
                    intHash64(bitXor(
                        intHash64(bitXor(
                            intHash64(bitXor(reinterpretAsUInt64(reverse(obj_hash)), toUInt64(toInt64(ne_id)))),
                            toUInt64(toUnixTimestamp64Milli(record_time))
                        )),
                        toUInt64(toInt64(duration))
                    )),
                    toUInt64(cell_index)
                )),
                bitOr(bitShiftLeft(toUInt64(CRC32(extra_field)), 32), toUInt64(CRC32(rat_type)))
            )),
            bitOr(bitShiftLeft(toUInt64(toInt64(counter_id)), 32), toUInt64(CRC32(group_code)))
        )),
        if(isNull(counter_value), 0x7ff8000000000000, reinterpretAsUInt64(assumeNotNull(counter_value)))
    ))) AS digest
FROM pm_counter_data FINAL
WHERE version IN {versions:Array(UInt64)} AND record_time >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')
GROUP BY version
ORDER BY version
