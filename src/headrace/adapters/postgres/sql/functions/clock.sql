-- Durations arrive as numbers.
CREATE FUNCTION headrace.seconds(amount double precision) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN amount * interval '1 second';

-- The server's clock, as moments are counted.
CREATE FUNCTION headrace.now_ms() RETURNS bigint LANGUAGE sql VOLATILE
RETURN floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;
