-- The rule of an item that died with its workers has the name that the documentation gives it.
UPDATE headrace.dead SET rule = 'worker_lost' WHERE reason = 'worker_lost' AND rule = 'crashes_max';

-- Settle an expired claim: its unsettled items come back as suspects. If the claim ran alone and had begun, its first
-- unsettled item was the only one started, and that one is charged: it dies at crashes_max. The answer is whether the
-- chunk ended.
CREATE OR REPLACE FUNCTION headrace.lose(claim headrace.claim, crashes_max integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    state headrace.chunk_state;
    place headrace.chunk_state;
    kept integer[];
    parted record;
    width integer := claim.hi - claim.lo;
BEGIN
    SELECT * INTO state FROM headrace.chunk_state s WHERE s.id = claim.chunk;
    claim.low := coalesce(claim.low, headrace.zeros(width));
    claim.high := coalesce(claim.high, headrace.zeros(width));
    parted := headrace.end_cancelled(claim, state, headrace.indexes(headrace.unsettled(claim)));
    claim := parted.claim;
    kept := parted.kept;
    place := state;
    place.due_at := NULL;
    place.suspect := true;
    place.revokes := coalesce(state.revokes, '{}') || claim.fence;
    IF claim.alone AND claim.step > 0 AND cardinality(kept) > 0 THEN
        IF state.crashes + 1 >= crashes_max THEN
            claim := headrace.end_dead(claim, place, jsonb_build_array(jsonb_build_object(
                'index', kept[1], 'reason', 'worker_lost', 'rule', 'worker_lost', 'error', '', 'attempts',
                    state.attempt)));
        ELSE
            place.crashes := state.crashes + 1;
            claim := headrace.move(claim, place, kept[1:1]);
            place.crashes := state.crashes;
        END IF;
        kept := kept[2:];
    END IF;
    IF cardinality(kept) > 0 THEN
        claim := headrace.move(claim, place, kept);
    END IF;
    RETURN headrace.end_claim(claim, claim.hi);
END $$;
