-- name: phase_enter
-- Whoever is second changes nothing, and is told so by the count: an error would hide that it only came late.
INSERT INTO matching_phase (job_id, generation, phase, event_id, entered_at)
VALUES (:job, :generation, :phase, :event_id, :now)
    ON CONFLICT (job_id, generation, phase) DO NOTHING

-- name: phases_of
SELECT phase, generation, event_id, entered_at FROM matching_phase WHERE job_id = :job ORDER BY entered_at, event_id

-- name: phase_of
SELECT event_id FROM matching_phase WHERE job_id = :job AND generation = :generation AND phase = :phase
