-- A dead letter keeps the whole traceback of the attempt it died of.
ALTER TABLE headrace.dead ADD COLUMN traceback text NOT NULL DEFAULT '';

-- Dead letters for items that end dead; those that ended before are left out. A letter remembers the lost claims that
-- had the item: whoever redrives it must tell the sinks.
CREATE OR REPLACE FUNCTION headrace.end_dead(INOUT claim headrace.claim, state headrace.chunk_state, losses jsonb)
LANGUAGE plpgsql AS $$
DECLARE
    dying integer[];
BEGIN
    SELECT array_agg(DISTINCT (l ->> 'index')::integer) INTO dying FROM jsonb_array_elements(losses) l
     WHERE (l ->> 'index')::integer < claim.hi - claim.lo
       AND get_bit(headrace.unsettled(claim), (l ->> 'index')::integer) = 1;
    IF dying IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO headrace.dead (job, generation, position, seq, tenant, flow, stage, key, reason, rule, error,
        fingerprint, attempts, depth, revokes, payload, traceback)
    SELECT state.job, state.generation, state.position, i.seq, state.tenant, j.flow, s.name, i.key, l ->> 'reason',
           l ->> 'rule', l ->> 'error', headrace.fingerprint(l ->> 'rule', l ->> 'error', l ->> 'reason'),
           (l ->> 'attempts')::integer, state.depth, state.revokes, i.payload,
           coalesce(l ->> 'traceback', '')
      FROM (SELECT DISTINCT ON ((e ->> 'index')::integer) e AS l FROM jsonb_array_elements(losses) e
             WHERE (e ->> 'index')::integer = ANY (dying)) chosen
      JOIN headrace.items_of(claim.chunk, ARRAY(SELECT at + claim.lo FROM unnest(dying) at)) i
        ON i.item = (l ->> 'index')::integer + claim.lo
      JOIN headrace.job j ON j.id = state.job
      JOIN headrace.stage s ON s.job = state.job AND s.generation = state.generation AND s.position = state.position;
    claim := headrace.mark(claim, 'dead', headrace.plane(dying, claim.hi - claim.lo));
END $$;
